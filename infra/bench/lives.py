"""Lives of worker processes for the take-over benchmark: started, killed, and what their logs say happened when.

Knows the events that a worker logs; times are the wall clock's seconds, as in the log.
"""

import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from infra.bench.errors import BenchError
from infra.broker.child import end, spawn
from infra.broker.ports import free_ports
from infra.demo.services import gpumeter, log_tail
from infra.status.process import ask


class Event(NamedTuple):
    """A line of a worker's log."""

    at_s: float
    name: str
    told: dict[str, Any]


class Life:
    """One life of a worker, from its start to its end."""

    def __init__(self, name: str, bootstrap: str, logs: Path, *options: str, **environment: str) -> None:
        (port,) = free_ports(1)
        self.name, self.address, self.log = name, f"127.0.0.1:{port}", logs / f"{name}.log"
        logs.mkdir(parents=True, exist_ok=True)
        settings = {"GPUMETER_WORKER_METRICS_PORT": str(port), **environment}
        told = [f"{name}={value}" for name, value in settings.items()]
        self.began_s = time.time_ns() / 1e9
        argv = ["/usr/bin/env", *told, *gpumeter("worker", "--bootstrap-servers", bootstrap, *options)]
        self._process = spawn(argv, log=self.log)

    def events(self, since_s: float = 0.0) -> Iterator[Event]:
        """Lines of the log from a time on."""
        for line in self.log.read_text().splitlines():
            if line.startswith("{"):
                told = json.loads(line)
                at_s = datetime.fromisoformat(told["timestamp"]).timestamp()
                if at_s >= since_s:
                    yield Event(at_s, told["event"], told)

    def times(self, name: str, since_s: float = 0.0) -> list[float]:
        """When an event was logged."""
        return [event.at_s for event in self.events(since_s) if event.name == name]

    def is_ready(self) -> bool:
        """Whether it says so."""
        health = ask(self.address).health
        return health is not None and health.ready

    def lag(self) -> float | None:
        """Records that are not metered; None where it does not say."""
        found = ask(self.address).numbers.get("gpumeter_worker_lag_records")
        return sum(found.values()) if found else None

    def kill(self) -> float:
        """Kill -9; when."""
        self._process.kill()
        self._process.wait()
        return time.time_ns() / 1e9

    def end(self) -> None:
        """SIGTERM, if it lives."""
        end(self._process, patience_s=20.0)

    def check(self) -> None:
        """BenchError where it has ended."""
        code = self._process.poll()
        if code is not None:
            raise BenchError(f"{self.name} ended with {code}. {log_tail(self.log)}")


def wait_until(reached: Any, timeout_s: float, lives: Sequence[Life], what: str) -> float:
    """When `reached()` became true, seconds; BenchError where a life ends or the time is over."""
    deadline = time.monotonic() + timeout_s
    while not reached():
        for life in lives:
            life.check()
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not come within {timeout_s:g} s. {log_tail(lives[0].log)}")
        time.sleep(0.1)
    return time.time_ns() / 1e9
