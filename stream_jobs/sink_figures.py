"""The sink's numbers and whether it is ready: which there are, and what they are now. Pure.

Law: a sink that is behind the end of its topic, or waits for its ledger, says so and is not ready
(tests/unit/stream_jobs/test_sink_figures.py); the table in infra/docs/metrics.md is made from this one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.metrics import COUNTER, GAUGE, Metric, Values

_PART = ("partition",)
_S = "gpumeter_sink_"

SINK_METRICS = (
    Metric(f"{_S}lag_records", GAUGE, "Messages of gpu-usage that are not in the ledger yet", _PART),
    Metric(f"{_S}lag_seconds", GAUGE, "Age of the last message in the ledger, by its append time; 0 at the end", _PART),
    Metric(f"{_S}buffered_messages", GAUGE, "Messages taken from Kafka and not in the ledger yet"),
    Metric(f"{_S}messages_total", COUNTER, "Messages dealt with"),
    Metric(f"{_S}rows_total", COUNTER, "Rows inserted"),
    Metric(f"{_S}retries_total", COUNTER, "Inserts tried again since ClickHouse or the broker was away"),
    Metric(f"{_S}dead_letters_total", COUNTER, "Messages refused for good", ("reason",)),
    Metric(f"{_S}live_rows_total", COUNTER, "Provisional rows of open windows inserted"),
    Metric(f"{_S}live_dropped_total", COUNTER, "Provisional rows dropped: ClickHouse was away, or not readable"),
    Metric(f"{_S}live_running", GAUGE, "1 while provisional rows are taken"),
    Metric(f"{_S}waiting", GAUGE, "1 while ClickHouse or the broker is away and the sink tries again"),
)

RUNNING = "running"
_LIVE = {"rows": "rows_total", "dropped": "dropped_total", "running": "running"}
Numbers = dict[tuple[str, ...], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkView:
    """How a sink stands; offsets by partition, `ends` of partitions whose end is known."""

    state: str = "starting"
    counts: Mapping[str, int] = field(default_factory=dict)
    letters: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    append_us: Mapping[int, int] = field(default_factory=dict)
    buffered: int = 0
    broker_trouble: str = ""
    live: Mapping[str, int] = field(default_factory=dict)
    """Of provisional rows: `rows`, `dropped`, `running`; empty where none are taken."""


def lags(view: SinkView, now_us: int) -> dict[int, tuple[int, float | None]]:
    """Records and seconds behind the end of each partition; seconds None while nothing was taken from it."""
    found: dict[int, tuple[int, float | None]] = {}
    for partition, end in view.ends.items():
        behind = max(0, end - view.done.get(partition, 0))
        append_us = view.append_us.get(partition)
        age_s = None if append_us is None else max(0.0, (now_us - append_us) / 1e6)
        found[partition] = (behind, age_s if behind else 0.0)
    return found


def sink_values(view: SinkView, now_us: int) -> Values:
    """Every metric of the sink."""
    behind = lags(view, now_us)
    ages: Numbers = {(str(p),): age for p, (_, age) in behind.items() if age is not None}
    counts: dict[str, Numbers] = {name: {(): view.counts.get(name, 0)} for name in ("messages", "rows", "retries")}
    return {
        f"{_S}lag_records": {(str(p),): records for p, (records, _) in behind.items()},
        f"{_S}lag_seconds": ages,
        f"{_S}buffered_messages": {(): view.buffered},
        f"{_S}dead_letters_total": {(reason,): count for reason, count in view.letters.items()},
        f"{_S}waiting": {(): int(view.state.startswith("waiting"))},
        **{f"{_S}{name}_total": value for name, value in counts.items()},
        **{f"{_S}live_{_LIVE[name]}": {(): number} for name, number in view.live.items()},
    }


def sink_not_ready(view: SinkView, now_us: int, most_s: float) -> list[str]:
    """What keeps a sink from being ready: its state, the broker, or more than `most_s` behind the topic's end."""
    reasons = [] if view.state == RUNNING else [view.state]
    reasons += [f"broker: {view.broker_trouble}"] if view.broker_trouble else []
    unknown = sorted(view.done.keys() - view.ends.keys())
    reasons += [f"end of gpu-usage/{partition} is not known yet" for partition in unknown]
    for partition, (records, seconds) in sorted(lags(view, now_us).items()):
        if records and (seconds is None or seconds > most_s):
            age = "none was taken yet" if seconds is None else f"{seconds:.0f} s, at most {most_s:g} s"
            reasons.append(f"gpu-usage/{partition}: {records} messages behind the end ({age})")
    return reasons
