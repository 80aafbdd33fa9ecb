"""How far the ledger is, asked of the running sink's front and the broker.

Owns the question "is everything in?"; knows nothing of what is. Tested in tests/e2e/test_demo.py.
"""

import json
import urllib.request
from typing import NamedTuple

from infra.broker.offsets import end_offsets
from infra.demo.queries import closed_to
from schemas.names import GPU_USAGE
from stream_jobs.ledger import open_ledger

TIMEOUT_S = 10


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
        with urllib.request.urlopen(f"{self._url}/status", timeout=TIMEOUT_S) as answer:
            reached = json.load(answer)["next_offsets"]
        ends = end_offsets(self._bootstrap, GPU_USAGE)
        lag = sum(end - int(reached.get(str(partition), 0)) for partition, end in ends.items())
        return Seen(int(gpus_done), int(rows), lag)

    def close(self) -> None:
        """Lets go of the front."""
        self._ledger.close()
