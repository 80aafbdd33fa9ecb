"""The cluster watcher: pods, nodes and the clock from one cluster's API server to Kafka."""
