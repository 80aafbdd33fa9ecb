"""Garbage on the input topics: refused with a reason, and the rows are those of the log without it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers, decode_headers, encode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings
from stream_jobs.decode import decode_reading
from tests.property.drive import SETTINGS, SOURCE, content, run
from tests.property.workload import make_log

TOPICS = st.sampled_from((GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS))
PAYLOADS = {topic: [r.payload for r in records] for topic, records in make_log(3, nodes=1, minutes=2).items()}
REASONS = ("headers", "version", "record", "clock", "decode")
RECORDS = st.sampled_from(("reading", "snapshot", "pod", "node", "clock", "x", ""))


@st.composite
def damaged(draw):
    """A topic, a record name and a payload: a real one with some bytes changed, cut or replaced."""
    topic = draw(TOPICS)
    payload = bytearray(draw(st.sampled_from(PAYLOADS[draw(TOPICS)])))
    for at, value in draw(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=6)):
        payload[at % len(payload)] = value
    return topic, draw(RECORDS), bytes(payload[: draw(st.integers(0, len(payload)))])


@settings(max_examples=200, deadline=None)
@given(damaged())
def test_damaged_record_is_taken_or_refused_with_a_reason(case: tuple) -> None:
    """No bytes stop the meter: a record is taken, or refused with words."""
    topic, record, payload = case
    meter = PartitionMeter(SETTINGS, SOURCE)
    headers = Headers(record=record, cluster="c", node="n0", boot_id="b")
    refused = meter.feed(topic, [LogRecord(0, 0, encode_headers(headers), payload)])
    assert all(r.detail and r.reason in REASONS for r in refused)
    meter.close_ready()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("record", "cluster", "seq", "epoch_us", "odd")), st.binary(max_size=9) | st.none())
    )
)
def test_damaged_headers_are_refused_with_a_reason(headers: list) -> None:
    """Missing, doubled or unreadable headers are refused with words."""
    refused = PartitionMeter(SETTINGS, SOURCE).feed(GPU_SAMPLES, [LogRecord(0, 0, headers, b"")])
    assert all(r.detail and r.reason in REASONS for r in refused)


def test_refusals_are_counted_by_one_word() -> None:
    """Each way to be refused has its own word, as the dead letters' record lists them."""
    good = Headers(record="reading", cluster="c", node="n0", boot_id="b")
    cases = [
        (Headers(record="reading", version=9, cluster="c"), b"", "version"),
        (Headers(record="pod", cluster="c", node="n0"), b"", "record"),
        (Headers(record="clock", cluster="c"), b"{}", "clock"),
        (good, b"x", "decode"),
    ]
    records = [LogRecord(n, 0, encode_headers(headers), payload) for n, (headers, payload, _) in enumerate(cases)]
    refused = PartitionMeter(SETTINGS, SOURCE).feed(GPU_SAMPLES, [*records, LogRecord(9, 0, [], b"")])
    assert [r.reason for r in refused] == [*(word for _, _, word in cases), "headers"]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.lists(damaged(), min_size=1, max_size=8))
def test_garbage_leaves_the_other_rows_alone(seed: int, cases: list) -> None:
    """Rows of a log are the same with garbage of an unknown record put in front of it."""
    log = make_log(seed)
    dirty = {}
    for topic, records in log.items():
        junk = [(encode_headers(Headers(record="x", cluster="c", node="n0")), p) for t, _, p in cases if t == topic]
        rows = [*junk, *((r.headers, r.payload) for r in records)]
        dirty[topic] = [LogRecord(i, 0, headers, payload) for i, (headers, payload) in enumerate(rows)]
    assert content(run(dirty)[0]) == content(run(log)[0])


@pytest.mark.parametrize("payload", [b'{"x":' + b"[" * 100_000, b'{"x":' * 100_000])
def test_endless_nesting_is_refused(payload: bytes) -> None:
    """JSON nested deeper than the reader goes is refused like any other garbage."""
    meter = PartitionMeter(SETTINGS, SOURCE)
    headers = encode_headers(Headers(record="snapshot", cluster="c", node="n0"))
    (refused,) = meter.feed(POD_MAPPINGS, [LogRecord(0, 0, headers, payload)])
    assert "recursion" in refused.detail


def _clock(offset: int, now_us: int, append_us: int) -> LogRecord:
    headers = encode_headers(Headers(record="clock", cluster="c"))
    return LogRecord(offset, append_us, headers, encode_clock(ClockRecord(cluster="c", now_us=now_us), b"", "", 0))


def test_clock_of_1970_moves_nothing() -> None:
    """A clock record far older than its append time is not believed: it would open every window since then."""
    meter, append_us = PartitionMeter(MeterSettings(), SOURCE), 1_790_000_000_000_000
    meter.feed(GPU_SAMPLES, [_clock(0, 5_000_000, append_us), _clock(1, append_us, append_us)])
    assert meter.metrics()["clocks_ignored"] == 1
    assert meter.metrics()["clock_us"] == append_us


@pytest.mark.parametrize(("ahead_us", "refused"), [(7_200_000_000, 0), (90_000_000_000, 1)])
def test_reading_days_ahead_is_refused(ahead_us: int, refused: int) -> None:
    """A reading days before its time is refused, since progress would wait for its window; one of hours is kept."""
    reading = next(r for r in make_log(3, nodes=1, minutes=2)[GPU_SAMPLES] if decode_headers(r.headers).node)
    newest_us = max(decode_reading(reading.payload)[0]["read_us"].tolist())
    meter = PartitionMeter(MeterSettings(), SOURCE)
    late = LogRecord(0, newest_us - ahead_us, reading.headers, reading.payload)
    assert len(meter.feed(GPU_SAMPLES, [late])) == refused
    assert meter.metrics()["buffered_readings"] == 1 - refused
