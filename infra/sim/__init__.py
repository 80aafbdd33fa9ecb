"""A simulated cluster with a truth: GPUs, driver, /proc, kubelet and API server, each at its own interface."""
