"""ClickHouse's HTTP interface over the embedded engine, and where a ledger is found."""
