"""What a demo was asked to do, and where its files lie. Knows nothing of how.

Tested in tests/e2e/test_demo.py.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from infra.demo.errors import Busy

_REMOVED = ("ledger", "kafka", "simulation", "logs", "summary.json")
"""What a demo removes before it begins."""


class Plan(NamedTuple):
    """One run: the story, for how long, in which step, and what stays up afterwards."""

    scenario: str = "default"
    trace: str | None = None
    hours: float | None = None
    keep: bool = False
    live: bool = False
    partitions: int = 2
    out: Path = Path("build/demo")
    step_s: float | None = None
    """Simulated seconds between two meetings of all processes; None: 5 s, 30 s above two hours."""

    @property
    def ledger(self) -> Path:
        """The embedded ClickHouse's directory; stays after the run."""
        return self.out / "ledger"

    @property
    def kafka(self) -> Path:
        """The broker's directory; removed after a run that went well."""
        return self.out / "kafka"

    @property
    def simulation(self) -> Path:
        """Files of the simulated nodes, and the truth they wrote."""
        return self.out / "simulation"

    @property
    def logs(self) -> Path:
        """One log for each process."""
        return self.out / "logs"

    @property
    def summary(self) -> Path:
        """The result as JSON."""
        return self.out / "summary.json"


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Only one demo at a time in a directory; Busy where another runs there, or where it is not a demo's.

    A demo removes what the last one left, folders named logs and ledger among it: only where there was a demo before.
    """
    out.mkdir(parents=True, exist_ok=True)
    foreign = [] if (out / "lock").exists() else [name for name in _REMOVED if (out / name).exists()]
    if foreign:
        raise Busy(
            f"{out} has {', '.join(foreign)}, not made by a demo; a demo would remove them. Nothing was touched: "
            "name another --out"
        )
    with (out / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another demo runs in {out}; wait for it, stop it, or name another --out") from None
        yield
