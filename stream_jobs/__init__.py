"""The middle: from samples, mappings and events to windows of use per pod, and from there into ClickHouse."""
