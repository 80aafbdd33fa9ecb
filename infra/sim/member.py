"""A process of a simulation as its coordinator holds it: one JSON line to it, one JSON line back.

Owns pipes and the process's life; knows nothing of time. Law: a member that dies or stays silent is an error with its
log's end, never a wait for ever (tests/integration/test_lockstep.py).
"""

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from infra.broker.child import bound_to_owner, end

TAIL_LINES = 20
SILENCE_S = 300.0
END_S = 30.0
TERM_S = 5.0
STOP_S = 8.0
"""Patience with the end of a simulation that is given up; then its processes are ended."""


class SimulationError(RuntimeError):
    """A process of the simulation ended or fell silent; the text has its name, its exit code and its log's end."""


class Member:
    """A child process `python -m MODULE ARGUMENTS`; it ends when its stdin closes, and at once when its parent dies."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                bound_to_owner([sys.executable, "-m", module, *arguments]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                start_new_session=True,
            )

    def tell(self, **command: Any) -> None:
        """Sends a command; SimulationError where the process is gone."""
        try:
            self._pipe(self.process.stdin).write(json.dumps(command).encode() + b"\n")
        except OSError:
            raise self._ended() from None

    def answer(self, timeout_s: float = SILENCE_S, watch: Callable[[], None] | None = None) -> dict[str, Any]:
        """The next answer; SimulationError where none comes. `watch` is called every second of the wait."""
        pipe = self._pipe(self.process.stdout)
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        deadline_s = time.monotonic() + timeout_s
        while not ready.poll(max(0.0, min(1.0, deadline_s - time.monotonic())) * 1000):
            if watch:
                watch()
            if time.monotonic() < deadline_s:
                continue
            raise SimulationError(f"{self.name} said nothing for {timeout_s:.0f} s\n{self._tail()}")
        line = pipe.readline()
        if not line:
            raise self._ended()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise SimulationError(f"{self.name} said {line!r}, which is no answer\n{self._tail()}")
        return answer

    def release(self) -> None:
        """Tells it to finish, without a wait."""
        if self.process.poll() is None and not self._pipe(self.process.stdin).closed:
            with suppress(SimulationError, OSError):
                self.tell(finish=True)
                self._pipe(self.process.stdin).close()

    def finish(self, patience_s: float = END_S) -> int:
        """Tells it to finish and waits; a process that does not is ended. Its exit code."""
        self.release()
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return self.end()

    def end(self) -> int:
        """Ends it now. Its exit code."""
        return end(self.process, patience_s=TERM_S)

    def check(self) -> None:
        """SimulationError where it has ended."""
        if self.process.poll() is not None:
            raise self._ended()

    def check_exit(self, code: int) -> None:
        """SimulationError where it ended with an error."""
        if code != 0:
            raise self._ended()

    def _ended(self) -> SimulationError:
        try:
            code: int | str = self.process.wait(10)
        except subprocess.TimeoutExpired:
            code = "unknown, it still runs without its pipes"
        return SimulationError(f"{self.name} ended with exit code {code}\n{self._tail()}")

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"The end of {self.log}:", *(f"  {line}" for line in lines)])

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe
