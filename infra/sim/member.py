"""A process of a simulation as its coordinator holds it: one JSON line to it, one JSON line back.

Owns pipes and the process's life; knows nothing of time. Law: a member that dies or stays silent is an error with its
log's end, never a wait for ever (tests/integration/test_lockstep.py).
"""

import json
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from infra.broker.child import bound_to_owner

TAIL_LINES = 20
SILENCE_S = 300.0
END_S = 30.0


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

    def answer(self, timeout_s: float = SILENCE_S) -> dict[str, Any]:
        """The next answer; SimulationError where none comes."""
        pipe = self._pipe(self.process.stdout)
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        if not ready.poll(timeout_s * 1000):
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

    def finish(self) -> int:
        """Tells it to finish and waits; a process that does not is ended. Its exit code."""
        if self.process.poll() is None:
            try:
                self.tell(finish=True)
                self._pipe(self.process.stdin).close()
                self.process.wait(END_S)
            except (SimulationError, OSError, subprocess.TimeoutExpired):
                self.end()
        return self.process.wait()

    def end(self) -> None:
        """Ends it now."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()

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
