"""The worker's numbers: which there are, and what they are now. Pure; serving is metrics.py's.

Counters live as long as the process: what a lane counted is kept when its partition goes. Tested in
tests/unit/stream_jobs/test_figures.py; the table in infra/docs/metrics.md is made from this one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.ids import UNATTRIBUTED, UNOBSERVED
from schemas.metrics import COUNTER, GAUGE, Metric, Values

from .lane import Lane

_PART, _TOPIC = ("partition",), ("topic", "partition")
_W = "gpumeter_worker_"

WORKER_METRICS = (
    Metric(f"{_W}lag_records", GAUGE, "Records of the log that are not metered yet", _TOPIC),
    Metric(f"{_W}lag_seconds", GAUGE, "Age of the last record metered, by its append time; 0 at the log's end", _TOPIC),
    Metric(
        f"{_W}event_lag_seconds", GAUGE,
        "Event time from the oldest window not closed to the clock: window and lateness where all is well", _PART,
    ),
    Metric(f"{_W}watermark_timestamp_seconds", GAUGE, "Lowest watermark of the nodes, event time", _PART),
    Metric(f"{_W}clock_timestamp_seconds", GAUGE, "Newest clock in gpu-samples, of the cluster farthest back", _PART),
    Metric(f"{_W}closed_timestamp_seconds", GAUGE, "Event time up to which every node's windows are closed", _PART),
    Metric(f"{_W}nodes", GAUGE, "Nodes that are known", _PART),
    Metric(f"{_W}open_windows", GAUGE, "Windows of nodes that have begun and are not closed", _PART),
    Metric(f"{_W}buffered_readings", GAUGE, "Readings held for windows that are open", _PART),
    Metric(f"{_W}buffered_bytes", GAUGE, "Size of those readings", _PART),
    Metric(f"{_W}paused", GAUGE, "1 for a topic that waits for the others", _TOPIC),
    Metric(f"{_W}buffered_messages", GAUGE, "Messages taken from Kafka and not metered yet"),
    Metric(f"{_W}reread_left_records", GAUGE, "Records to read again until the place where it was", _PART),
    Metric(f"{_W}reread_records_total", COUNTER, "Records read again after a partition was taken over", _PART),
    Metric(f"{_W}skipped_records_total", COUNTER, "Records that came again and were passed over", _PART),
    Metric(f"{_W}records_total", COUNTER, "Records metered", _PART),
    Metric(f"{_W}readings_total", COUNTER, "Readings by what became of them", ("partition", "became")),
    Metric(f"{_W}late_seconds_total", COUNTER, "GPU time of late readings: their windows were cut before", _PART),
    Metric(f"{_W}late_beyond_seconds_total", COUNTER, "GPU time that came too late to be metered", _PART),
    Metric(f"{_W}looks_total", COUNTER, "Closed windows computed again because of late records", _PART),
    Metric(f"{_W}looks_abandoned_total", COUNTER, "Of these, given up: their part of the log is gone", _PART),
    Metric(f"{_W}revisions_total", COUNTER, "Revisions of closed windows published", _PART),
    Metric(f"{_W}clocks_ignored_total", COUNTER, "Clock records that were not believed", _PART),
    Metric(f"{_W}watchers_away", GAUGE, "Clusters whose watcher is away, so that the worker writes their clock", _PART),
    Metric(f"{_W}clock_overrides_total", COUNTER, "Clock records that workers wrote for an absent watcher", _PART),
    Metric(f"{_W}clusters_forgotten_total", COUNTER, "Clusters dropped: no clock of theirs for the whole reach", _PART),
    Metric(f"{_W}spool_gaps_total", COUNTER, "Gaps that collectors told, resends among them", _PART),
    Metric(f"{_W}dead_letters_total", COUNTER, "Records refused for good", ("topic", "partition", "reason")),
    Metric(f"{_W}windows_total", COUNTER, "Windows of nodes closed", _PART),
    Metric(f"{_W}rows_total", COUNTER, "Usage rows published", _PART),
    Metric(f"{_W}charged_seconds_total", COUNTER, "GPU time of closed windows by holder", ("partition", "kind")),
    Metric(f"{_W}unattributed_ratio", GAUGE, "Share of GPU time unattributed in the windows closed last", _PART),
    Metric(f"{_W}unobserved_ratio", GAUGE, "Share of GPU time unobserved in the windows closed last", _PART),
    Metric(f"{_W}conservation_violations_total", COUNTER, "Broken laws found at the close; must be 0", _PART),
    Metric(f"{_W}live_rows_total", COUNTER, "Provisional rows of open windows sent"),
    Metric(f"{_W}live_lost_total", COUNTER, "Messages of provisional rows that the broker did not take"),
    Metric(f"{_W}live_cpu_seconds_total", COUNTER, "Processor time that provisional rows took"),
    Metric(f"{_W}progress_age_seconds", GAUGE, "Time since progress was last committed or found unchanged", _PART),
)  # fmt: skip

_COUNTERS = {
    "records": "records_total", "windows": "windows_total", "rows": "rows_total",
    "violations": "conservation_violations_total", "clocks_ignored": "clocks_ignored_total",
    "gaps": "spool_gaps_total", "looks": "looks_total", "looks_abandoned": "looks_abandoned_total",
    "revisions": "revisions_total", "overrides": "clock_overrides_total",
    "clusters_forgotten": "clusters_forgotten_total",
}  # fmt: skip
_GAUGES = {"nodes": "nodes", "open_windows": "open_windows", "buffered_readings": "buffered_readings"}
_TIMES = {
    "watermark_us": "watermark_timestamp_seconds", "clock_us": "clock_timestamp_seconds",
    "closed_to_us": "closed_timestamp_seconds",
}  # fmt: skip
_LIVE = {"rows": "rows_total", "lost": "lost_total", "cpu_s": "cpu_seconds_total"}
_READINGS = ("taken", "duplicate", "late", "beyond")
Table = dict[str, dict[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the shell knows at one moment: log ends, clocks, messages waiting in memory, watchers away by partition."""

    ends: Mapping[int, Mapping[str, int]]
    wall_us: int
    monotonic_s: float
    buffered: int
    away: Mapping[int, int]
    live: dict[str, float] = field(default_factory=dict)
    """Of provisional figures: rows sent, messages lost, processor seconds."""


@dataclass(slots=True)
class WorkerFigures:
    """The counters of lanes that are gone, and with them those of the ones that are there."""

    _gone: Table = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))

    def retire(self, lanes: Iterable[Lane]) -> None:
        """Keeps the counters of lanes that are dropped."""
        for lane in lanes:
            _add(self._gone, _counters(lane))

    def values(self, lanes: Iterable[Lane], at: Moment) -> Values:
        """Every metric of the worker at a moment."""
        found: Table = defaultdict(lambda: defaultdict(float))
        _add(found, self._gone)
        for lane in lanes:
            _add(found, _counters(lane))
            _add(found, _gauges(lane, at))
        found[f"{_W}buffered_messages"][()] = at.buffered
        found |= {f"{_W}live_{_LIVE[name]}": {(): number} for name, number in at.live.items()}
        return {name: dict(values) for name, values in found.items()}


def not_ready(lanes: Mapping[int, Lane], assigned: set[int] | None) -> list[str]:
    """What keeps a worker from being ready; `assigned` None: the group has given it no partitions yet."""
    if assigned is None:
        return ["no assignment: the group rebalances or the broker is away"]
    absent = sorted(assigned - lanes.keys())
    reasons = [f"progress is not loaded yet: partitions {', '.join(map(str, absent))}"] if absent else []
    for partition, lane in sorted(lanes.items()):
        if left := lane.reread_left():
            reasons.append(f"partition {partition}: {left} records to read again until where it was")
        reasons += [str(gap) for gap in lane.gaps.values()]
    return reasons


def _counters(lane: Lane) -> Table:
    partition, numbers, counts = str(lane.partition), lane.meter.counts, lane.counts
    part = (partition,)
    return {
        **{_W + name: {part: numbers[key]} for key, name in _COUNTERS.items()},
        f"{_W}readings_total": {(partition, became): numbers[f"readings_{became}"] for became in _READINGS},
        f"{_W}late_seconds_total": {part: numbers["late_us"] / 1e6},
        f"{_W}late_beyond_seconds_total": {part: numbers["beyond_us"] / 1e6},
        f"{_W}reread_records_total": {part: counts.reread},
        f"{_W}skipped_records_total": {part: counts.skipped},
        f"{_W}dead_letters_total": {(topic, partition, why): n for (topic, why), n in counts.letters.items()},
        f"{_W}charged_seconds_total": {(partition, kind): us / 1e6 for kind, us in counts.charged_us.items()},
    }


def _gauges(lane: Lane, at: Moment) -> Table:
    numbers, part = lane.meter.metrics(), (str(lane.partition),)
    found: Table = {_W + name: {part: numbers[key]} for key, name in _GAUGES.items()}
    found |= {_W + name: {part: numbers[key] / 1e6} for key, name in _TIMES.items() if key in numbers}
    found[f"{_W}buffered_bytes"] = {part: lane.held_bytes}
    found[f"{_W}watchers_away"] = {part: at.away[lane.partition]}
    found[f"{_W}paused"] = {(topic, part[0]): float(topic in lane.paused) for topic in lane.expected}
    found[f"{_W}reread_left_records"] = {part: lane.reread_left()}
    found[f"{_W}progress_age_seconds"] = {part: at.monotonic_s - lane.saved_at_s}
    if "clock_us" in numbers and "closed_to_us" in numbers:
        found[f"{_W}event_lag_seconds"] = {part: (numbers["clock_us"] - numbers["closed_to_us"]) / 1e6}
    for name, kind in (("unattributed_ratio", UNATTRIBUTED), ("unobserved_ratio", UNOBSERVED)):
        share = lane.counts.newest_share(kind)
        found[_W + name] = {} if share is None else {part: share}
    return found | _lags(lane, at)


def _lags(lane: Lane, at: Moment) -> Table:
    records: dict[tuple[str, ...], float] = {}
    seconds: dict[tuple[str, ...], float] = {}
    for topic, end in at.ends.get(lane.partition, {}).items():
        labels, behind = (topic, str(lane.partition)), max(0, end - lane.expected[topic])
        records[labels] = behind
        if not behind:
            seconds[labels] = 0.0
        elif topic in lane.counts.append_us:
            seconds[labels] = max(0.0, (at.wall_us - lane.counts.append_us[topic]) / 1e6)
    return {f"{_W}lag_records": records, f"{_W}lag_seconds": seconds}


def _add(to: Table, more: Mapping[str, Mapping[tuple[str, ...], Any]]) -> None:
    for name, values in more.items():
        for labels, number in values.items():
            to[name][labels] += number
