"""infra/clickhouse"""
