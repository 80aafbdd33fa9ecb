"""The demo's processes: started with a log each, watched, and ended in reverse order; none outlives the demo.

Owns process lives only; knows nothing of what they do. Law: after `stop`, and also after the demo itself was killed,
no process is left (tests/e2e/test_demo_interrupted.py).
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from infra.broker.child import end, spawn
from infra.demo.errors import DemoError

TAIL_LINES = 25
PATIENCE_S = 20.0


class Service(NamedTuple):
    """A process of ours and where its output goes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Services:
    """Processes in the order they were started."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: list[Service] = []

    def start(self, name: str, argv: Sequence[str]) -> Service:
        """Starts argv (argv[0] a path) with its output in `logs`/NAME.log; it dies with this thread."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        service = Service(name, spawn(argv, log=log), log)
        self._running.append(service)
        return service

    def check(self) -> None:
        """DemoError with the tail of its log where a process has ended by itself."""
        for service in self._running:
            code = service.process.poll()
            if code is not None:
                raise DemoError(f"{service.name} ended with exit code {code}.\n{log_tail(service.log)}")

    def stop(self, name: str) -> None:
        """Ends one process and waits for it."""
        for service in [each for each in self._running if each.name == name]:
            self._running.remove(service)
            end(service.process, patience_s=PATIENCE_S)

    def stop_all(self) -> None:
        """Ends all, the newest first."""
        for service in reversed(list(self._running)):
            self.stop(service.name)


def gpumeter(*arguments: str) -> list[str]:
    """Argv of `gpumeter ARGUMENTS` under this Python."""
    return [sys.executable, "-m", "infra.cli.main", *arguments]


def log_tail(log: Path) -> str:
    """The last lines of a log under its name."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"The end of {log}:", *(f"  {line}" for line in lines[-TAIL_LINES:])])
