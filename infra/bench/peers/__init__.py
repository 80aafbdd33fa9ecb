"""Other stream processors over the same samples, one JSON message each: what a per-event job costs.

Each is a program of its own in its own environment and prints one outcome; the work asked of it is smaller than the
meter's: samples already carry their pod, and only a sum of points per pod and minute is wanted.
"""
