"""Time as the jobs may see it: a monotonic clock for cadences, the wall clock for figures about themselves.

Event time comes from records, never from here.
The only module of stream_jobs that asks the machine for the time.
"""

import time


def monotonic_s() -> float:
    """Seconds of a clock that never goes back, for cadences and durations only."""
    return time.monotonic()


def thread_cpu_s() -> float:
    """Seconds of processor time that this thread has had, to tell what a piece of work costs; decides nothing."""
    return time.thread_time()


def wall_us() -> int:
    """Microseconds since 1970, to tell how old a record is to a person who looks; decides nothing."""
    return time.time_ns() // 1000
