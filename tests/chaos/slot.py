"""One process of a seed, kept running unless the nemesis holds it down. Ended by process id only.

A process that ends by itself is started again, as Kubernetes would; what its exit code means is told at the end.
"""

import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.broker.child import spawn

_AGAIN_S = 0.5
_GRACE_S = 15.0


@dataclass(slots=True)
class Slot:
    """A process that is started again; `held` while the nemesis wants it down."""

    name: str
    argv: Callable[[], Sequence[str]]
    folder: Path
    endless: bool = True
    lives: int = 0
    held: bool = False
    restarts: int = 0
    done: bool = False
    process: subprocess.Popen[bytes] | None = None
    codes: list[int] = field(default_factory=list)
    """How lives ended that nobody ended."""
    _again_at_s: float = 0.0
    _end_by_s: float = 0.0
    _waits: bool = False
    _told_end: bool = False

    @property
    def log(self) -> Path:
        """Output of the life at hand."""
        return self.folder / f"{self.name}-{self.lives}.log"

    def start(self) -> None:
        """A new life, as soon as the last one has ended."""
        self.held = False
        if self.process is not None and self.process.poll() is None:
            self._waits = True
            return
        self._waits, self._again_at_s, self._end_by_s = False, 0.0, 0.0
        self.lives += 1
        self.process = spawn(list(self.argv()), log=self.log)

    def hold(self, number: int) -> None:
        """Ends the life by a signal, until `start`; one that does not end within the grace is killed."""
        self.held = True
        self._end_by_s = time.monotonic() + _GRACE_S
        self.signal(number)

    def signal(self, number: int) -> None:
        """Sends a signal if it lives."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def limit_files(self, limit_bytes: int) -> None:
        """From now on no file of this life grows beyond the limit."""
        if self.process is not None and self.process.poll() is None:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (limit_bytes, hard))

    def tend(self) -> None:
        """Starts it again where it ended by itself, or was ended and shall run again."""
        if self.done or self.process is None:
            return
        code = self.process.poll()
        if code is None:
            if self._end_by_s and time.monotonic() > self._end_by_s:
                self.process.kill()
        elif self.held:
            return
        elif self._waits:
            self.start()
        elif code == 0 and not self.endless:
            self.done = True
        elif not self._again_at_s:
            self.codes.append(code)
            self._again_at_s = time.monotonic() + _AGAIN_S
        elif time.monotonic() >= self._again_at_s:
            self.restarts += 1
            self.start()

    def tell_end(self) -> None:
        """SIGCONT and SIGTERM, once: Python programs take a second one for impatience."""
        self.held = True
        if not self._told_end:
            self._told_end = True
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)

    def end(self, patience_s: float = 20.0) -> int:
        """Tells it to end and waits; the exit code, -9 where it had to be killed."""
        self.tell_end()
        if self.process is None:
            return 0
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self) -> None:
        """Kill -9, for good."""
        self.held = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        """End of its newest log."""
        return self.log.read_text(errors="replace")[-2500:] if self.lives else ""
