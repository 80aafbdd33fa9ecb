"""Everything needed to run the meter: command line, local Kafka, ledger tables, simulated cluster, demo."""
