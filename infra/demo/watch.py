"""How far the ledger is, asked of the running sink's front and the broker.

Owns the question "is everything in?"; knows nothing of what is. Tested in tests/e2e/test_demo.py.
"""

from types import TracebackType
from typing import NamedTuple

from infra.broker.offsets import end_offsets
from infra.demo.errors import DemoError
from infra.demo.queries import closed_to
from infra.front.place import status_of
from schemas.names import GPU_USAGE
from stream_jobs.ledger import open_ledger


class Seen(NamedTuple):
    """GPUs whose rows reach the end of the simulated time, rows in the ledger, messages not yet in it."""

    gpus_done: int
    rows: int
    lag: int


class LedgerWatch:
    """Asks the front of a running sink."""

    def __init__(self, url: str, bootstrap: str) -> None:
        self._url = url
        self._bootstrap = bootstrap
        self._ledger = open_ledger(url=url)

    def look(self, end_us: int) -> Seen:
        """How far it is; the ledger is asked before the broker, so a lag of 0 means all that was there is in."""
        gpus_done, rows = self._ledger.query(closed_to(end_us))[0]
        status = status_of(self._url)
        if status is None:
            raise DemoError(f"the sink's front at {self._url} does not answer")
        reached = status["next_offsets"]
        ends = end_offsets(self._bootstrap, GPU_USAGE)
        lag = sum(end - int(reached.get(str(partition), 0)) for partition, end in ends.items())
        return Seen(int(gpus_done), int(rows), lag)

    def __enter__(self) -> "LedgerWatch":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ledger.close()
