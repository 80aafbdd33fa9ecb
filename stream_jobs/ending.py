"""Sees to it that a process that was told to end does end, whatever its libraries wait for.

With a broker dead, aiokafka's consumer may fail to stop in its own thread, and Faust then waits for that thread for
good. Nothing is lost by an end at once: what was not committed is read again. Tested in
tests/unit/stream_jobs/test_ending.py.
"""

import threading
from collections.abc import Callable

END_S = 12.0
"""Longest time from SIGTERM to the end; Kubernetes kills after 30 s."""
_LOOK_S = 0.5


def end_in_time(
    is_stopping: Callable[[], bool], give_up: Callable[[], None], patience_s: float = END_S, look_s: float = _LOOK_S
) -> None:
    """Calls `give_up`, from a thread of its own, when the process has been stopping for so long."""
    pause = threading.Event()

    def watch() -> None:
        while not is_stopping():
            pause.wait(look_s)
        pause.wait(patience_s)
        give_up()

    threading.Thread(target=watch, name="ending", daemon=True).start()
