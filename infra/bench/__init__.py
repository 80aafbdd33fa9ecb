"""Benchmarks: what the parts cost, measured as processes of their own."""
