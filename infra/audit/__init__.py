"""Whether a ledger is what the log says: its checksum, and the state of its laws."""
