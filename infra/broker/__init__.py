"""A real Apache Kafka on this machine, and the topics of the catalogue on any broker."""
