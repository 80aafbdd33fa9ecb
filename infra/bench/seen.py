"""When rows were first seen in the ledger, by asking it again and again: closed windows, and provisional figures."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from infra.bench.errors import BenchError
from infra.bench.shape import SECOND_US, FleetShape
from infra.bench.steady import Appended, Reading
from stream_jobs.ledger import Ledger

LIVE_VIEW = "usage_provisional"
"""The view of figures of open windows; where a ledger has none there is nothing to measure."""
_LOOK_BACK_US = 5_000_000
_LIVE_LOOK_S = 0.5


class Row(NamedTuple):
    """A window's row as first seen: what let it close, where it was published, when it was inserted and seen."""

    node: str
    start_us: int
    partition: int
    cuts: tuple[int, int, int]
    out: tuple[int, int]
    inserted_us: int
    seen_us: int


STEPS = ("closing_to_published_s", "published_to_inserted_s", "inserted_to_seen_s")
Places = Mapping[tuple[int, int], int]
"""(partition, offset) of gpu-usage to when that message was appended."""


class ClosedWindows:
    """Windows of nodes whose rows are there, each with the time of the first answer that showed one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._since_us = time.time_ns() // 1000
        self.rows: dict[tuple[str, int], Row] = {}

    def look(self) -> None:
        """Asks once, for what came in lately."""
        rows = self._ledger.query(
            "SELECT node, window_start_us, any(src_partition), any(cut_samples_offset), any(cut_mappings_offset), "
            "any(cut_events_offset), any(out_partition), any(out_offset), toUnixTimestamp64Milli(min(ingested_at)) "
            "FROM usage_ledger WHERE revision = 0 AND ingested_at >= fromUnixTimestamp64Micro({since:Int64}, 'UTC') "
            "GROUP BY node, window_start_us",
            {"since": self._since_us},
        )
        now_us = time.time_ns() // 1000
        self._since_us = max(self._since_us, now_us - _LOOK_BACK_US)
        for node, start_us, partition, *numbers, inserted_ms in rows:
            samples, mappings, events, *out = map(int, numbers)
            row = Row(
                node, start_us, partition, (samples, mappings, events), (out[0], out[1]), inserted_ms * 1000, now_us
            )
            self.rows.setdefault((node, start_us), row)


def latencies_s(rows: Iterable[Row], appended: Appended, published_us: Places) -> dict[str, list[float]]:
    """From the append of the record that closed each window to its row, in all and by step."""
    found: dict[str, list[float]] = {name: [] for name in ("all", *STEPS)}
    for row in rows:
        closing_us = appended.closing_us(row.node, row.partition, row.cuts)
        times = (closing_us, published_us[row.out], row.inserted_us, row.seen_us)
        found["all"].append((row.seen_us - closing_us) / 1e6)
        for name, (begin_us, end_us) in zip(STEPS, pairwise(times), strict=True):
            found[name].append((end_us - begin_us) / 1e6)
    return found


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

    @property
    def waiting(self) -> int:
        """Readings that no figure has shown yet."""
        return sum(map(len, self._waiting.values()))

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


def whole_windows(shape: FleetShape) -> int:
    """Windows that begin after a steady fleet does and are over, lateness and all, before it ends."""
    window_us = shape.window_s * SECOND_US
    first = -(-shape.start_us // window_us)
    over_us = shape.start_us + (shape.seconds - shape.lateness_s - shape.flush_s - 2) * SECOND_US
    return max(0, over_us // window_us - first)


def summary(latencies_s: Sequence[float]) -> dict[str, float]:
    """Count, median, 99th percentile and most; BenchError where there are none."""
    ordered = sorted(latencies_s)
    if not ordered:
        raise BenchError("nothing was seen, so there is no latency")
    at = {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * part))] for name, part in (("p50", 0.5), ("p99", 0.99))
    }
    return {"n": len(ordered), **at, "max": ordered[-1]}
