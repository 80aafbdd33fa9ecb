"""The pipeline at a glance: what Kafka, the ledger and the processes say, and what of it is wrong."""
