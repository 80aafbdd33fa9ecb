"""The worker's numbers, from real lanes."""

import pyarrow as pa

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.settings import MeterSettings
from stream_jobs.figures import WORKER_METRICS, Moment, WorkerFigures, not_ready
from stream_jobs.lane import Lane, Received, open_lane

HEADERS = encode_headers(Headers(record=CLOCK, cluster="c"))
STARTS = dict.fromkeys(INPUT_TOPICS, 0)
T0_US = 1_790_000_000_000_000


def _clock(offset: int, topic: str = GPU_SAMPLES) -> Received:
    payload = encode_clock(ClockRecord(cluster="c", now_us=T0_US + offset * 5_000_000), b"", topic, 0)
    return Received(topic, 0, 1, LogRecord(offset, T0_US + offset, HEADERS, payload))


def _lane(reached: dict[str, int] | None = None) -> Lane:
    return open_lane(0, 1, MeterSettings(simulated_time=True), "id", STARTS, reached)


def _moment(ends: dict[str, int]) -> Moment:
    return Moment(ends={0: ends}, wall_us=T0_US + 9_000_000, monotonic_s=7.0, buffered=3, away={0: 1})


def test_lag_is_what_lies_between_the_lane_and_the_end_of_the_log() -> None:
    """Lag counts records below the end of each topic, ages by the append time taken last, and is 0 s at the end."""
    lane = _lane()
    lane.feed([_clock(0), _clock(1), _clock(0, POD_EVENTS)])
    values = WorkerFigures().values([lane], _moment({GPU_SAMPLES: 7, POD_EVENTS: 1}))
    assert values["gpumeter_worker_lag_records"] == {(GPU_SAMPLES, "0"): 5, (POD_EVENTS, "0"): 0}
    assert values["gpumeter_worker_lag_seconds"] == {(GPU_SAMPLES, "0"): 8.999999, (POD_EVENTS, "0"): 0.0}
    assert values["gpumeter_worker_buffered_messages"] == {(): 3}
    assert values["gpumeter_worker_watchers_away"] == {("0",): 1}
    assert values["gpumeter_worker_clock_timestamp_seconds"] == {("0",): (T0_US + 5_000_000) / 1e6}


def test_unknown_is_left_out() -> None:
    """A lane that has seen nothing has no watermark, no clock, no lag in seconds and no shares, rather than zeros."""
    values = WorkerFigures().values([_lane()], _moment({GPU_SAMPLES: 7}))
    assert not values.get("gpumeter_worker_lag_seconds")
    for name in ("watermark_timestamp_seconds", "clock_timestamp_seconds", "event_lag_seconds", "unattributed_ratio"):
        assert not values.get(f"gpumeter_worker_{name}")


def test_counters_outlive_their_lane() -> None:
    """What a lane counted is still counted after its partition went, and adds to what a later lane counts."""
    figures, first, second = WorkerFigures(), _lane(), _lane()
    bad = Received(GPU_SAMPLES, 0, 1, LogRecord(0, T0_US, [], b"x"))
    first.feed([bad, _clock(1)])
    figures.retire([first])
    second.feed([bad])
    values = figures.values([second], _moment({}))
    assert values["gpumeter_worker_records_total"] == {("0",): 3}
    assert values["gpumeter_worker_dead_letters_total"] == {(GPU_SAMPLES, "0", "headers"): 2}


def test_shares_are_of_the_windows_closed_last() -> None:
    """Charged time is summed by kind for ever, shares are of the newest table alone, violations are no time."""
    lane = _lane()
    for kinds in (["pod", "unattributed", "violation"], ["pod", "unobserved", "violation"]):
        lane.counts.note_closed(pa.table({"holder_kind": kinds, "charged_us": [3_000_000, 1_000_000, 50]}))
    values = WorkerFigures().values([lane], _moment({}))
    assert values["gpumeter_worker_charged_seconds_total"] == {
        ("0", "pod"): 6.0, ("0", "unattributed"): 1.0, ("0", "unobserved"): 1.0,
    }  # fmt: skip
    assert values["gpumeter_worker_unattributed_ratio"] == {("0",): 0.0}
    assert values["gpumeter_worker_unobserved_ratio"] == {("0",): 0.25}


def test_every_value_is_in_the_table() -> None:
    """A worker shows no number that its table does not list, with as many labels as it says."""
    lane = _lane({GPU_SAMPLES: 1})
    lane.feed([_clock(0), _clock(0, POD_EVENTS)])
    lane.counts.note_closed(pa.table({"holder_kind": ["pod"], "charged_us": [1]}))
    listed = {metric.name: len(metric.labels) for metric in WORKER_METRICS}
    for name, numbers in WorkerFigures().values([lane], _moment({GPU_SAMPLES: 2})).items():
        assert {len(labels) for labels in numbers} <= {listed[name]}


def test_worker_is_ready_when_it_is_where_it_was() -> None:
    """Not ready without an assignment, without a lane for each partition, and below the place it had reached."""
    lane = _lane({GPU_SAMPLES: 2, POD_EVENTS: 1})
    assert "no assignment" in not_ready({}, None)[0]
    assert not_ready({0: _lane()}, {0, 1, 2}) == ["progress is not loaded yet: partitions 1, 2"]
    assert not_ready({0: lane}, {0}) == ["partition 0: 3 records to read again until where it was"]
    lane.feed([_clock(0), _clock(1)])
    assert not_ready({0: lane}, {0}) == ["partition 0: 1 records to read again until where it was"]
    lane.feed([_clock(0, POD_EVENTS), _clock(2)])
    assert not_ready({0: lane}, {0}) == []
    assert lane.counts.reread == 3
    assert not_ready({}, set()) == []


def test_missing_records_keep_a_worker_from_being_ready() -> None:
    """A gap in the log is a reason, with both offsets."""
    lane = _lane()
    lane.feed([_clock(4)])
    assert not_ready({0: lane}, {0}) == [f"{GPU_SAMPLES}/0: offset 4 came where 0 was expected"]
