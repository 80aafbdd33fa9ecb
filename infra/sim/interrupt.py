"""INT and TERM as one thing that a run cannot miss: the first counts, is remembered, and its ending is left in peace.

Owns the two signals of the process; knows nothing of what ends. Laws: INT ends a run also where the process was
started with INT ignored, as a shell without job control does for `command &`; a KeyboardInterrupt that Python dropped
(what a finalizer, a weak reference's callback or a ctypes callback raises goes no further) comes at the next `check`;
a second signal does not cut the ending short, which would leave files in memory
(tests/unit/infra/sim/test_interrupt.py).
"""

import signal
from types import FrameType


class Interrupt:
    """Whether INT or TERM has come; `listen` in the main thread first."""

    def __init__(self) -> None:
        self.came = False

    def listen(self) -> "Interrupt":
        """Takes both signals for the rest of the process's life, whatever it inherited."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        return self

    def check(self) -> None:
        """KeyboardInterrupt where a signal has come; asked by every loop that may go on for long."""
        if self.came:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self.came:
            self.came = True
            raise KeyboardInterrupt
