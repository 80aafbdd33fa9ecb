"""When rows were first seen in the ledger, by asking it again and again: closed windows, and provisional figures."""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from infra.bench.errors import BenchError
from infra.bench.steady import Appended, Reading
from stream_jobs.ledger import Ledger

LIVE_VIEW = "usage_provisional"
"""The view of figures of open windows; where a ledger has none there is nothing to measure."""
_LOOK_BACK_US = 5_000_000
_LIVE_LOOK_S = 0.5


class _Seen(NamedTuple):
    partition: int
    cuts: tuple[int, int, int]
    seen_us: int


class ClosedWindows:
    """Windows of nodes whose rows are there, each with the time of the first answer that showed one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._since_us = time.time_ns() // 1000
        self._seen: dict[tuple[str, int], _Seen] = {}

    def look(self) -> None:
        """Asks once, for what came in lately."""
        rows = self._ledger.query(
            "SELECT node, window_start_us, any(src_partition), any(cut_samples_offset), any(cut_mappings_offset), "
            "any(cut_events_offset) FROM usage_ledger "
            "WHERE revision = 0 AND ingested_at >= fromUnixTimestamp64Micro({since:Int64}, 'UTC') "
            "GROUP BY node, window_start_us",
            {"since": self._since_us},
        )
        now_us = time.time_ns() // 1000
        self._since_us = max(self._since_us, now_us - _LOOK_BACK_US)
        for node, start_us, partition, *cuts in rows:
            self._seen.setdefault((node, start_us), _Seen(partition, (cuts[0], cuts[1], cuts[2]), now_us))

    def latencies_s(self, appended: Appended, after_us: int) -> list[float]:
        """From the append of the record that closed each window to its row; windows from a start on."""
        return [
            (seen.seen_us - appended.closing_us(node, seen.partition, seen.cuts)) / 1e6
            for (node, start_us), seen in self._seen.items()
            if start_us >= after_us
        ]


class LiveView:
    """How long readings took until the provisional figures of their node held them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.is_there = bool(
            ledger.query("SELECT 1 FROM system.tables WHERE name = {name:String}", {"name": LIVE_VIEW})
        )
        self.latencies_s: list[float] = []
        self._taken = 0
        self._looked_s = 0.0
        self._waiting: dict[str, list[Reading]] = defaultdict(list)

    def look(self, readings: Sequence[Reading]) -> None:
        """Asks once, not oftener than twice a second, for the newest figures of each node."""
        if not self.is_there or time.monotonic() - self._looked_s < _LIVE_LOOK_S:
            return
        self._looked_s = time.monotonic()
        new, self._taken = readings[self._taken : len(readings)], len(readings)
        for reading in new:
            self._waiting[reading.node].append(reading)
        rows = self._ledger.query(f"SELECT node, max(as_of_us) FROM {LIVE_VIEW} GROUP BY node")
        now_us = time.time_ns() // 1000
        for node, as_of_us in rows:
            shown = [reading for reading in self._waiting[node] if reading.complete_us <= as_of_us]
            self.latencies_s += [(now_us - reading.append_us) / 1e6 for reading in shown]
            self._waiting[node] = [reading for reading in self._waiting[node] if reading.complete_us > as_of_us]


def summary(latencies_s: Sequence[float]) -> dict[str, float]:
    """Count, median, 99th percentile and most; BenchError where there are none."""
    ordered = sorted(latencies_s)
    if not ordered:
        raise BenchError("nothing was seen, so there is no latency")
    at = {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * part))] for name, part in (("p50", 0.5), ("p99", 0.99))
    }
    return {"n": len(ordered), **at, "max": ordered[-1]}
