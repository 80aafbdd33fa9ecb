"""The pure core: columns in, columns out. Knows no Kafka, Faust, ClickHouse, NVML, environment or clock."""
