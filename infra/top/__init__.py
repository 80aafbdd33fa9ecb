"""Who uses the GPUs now, or did in the last windows."""
