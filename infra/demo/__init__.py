"""The demo: the whole meter on a simulated cluster, and its figures beside the truth."""
