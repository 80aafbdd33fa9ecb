"""The edge: the node agent, and the cluster watcher in a folder of its own. Light: no Arrow library, no numpy."""
