"""A process that was told to end does."""

import threading
import time

from stream_jobs.ending import end_in_time


def test_end_comes_after_the_patience_and_not_before_it_was_told() -> None:
    """Nothing happens while the process works; once it is stopping, its end comes after the patience."""
    told, ended = threading.Event(), threading.Event()
    end_in_time(told.is_set, ended.set, patience_s=0.2, look_s=0.01)
    assert not ended.wait(0.3)
    began_s = time.monotonic()
    told.set()
    assert ended.wait(5)
    assert time.monotonic() - began_s >= 0.2
