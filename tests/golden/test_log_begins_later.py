"""Stories of logs that are older than their retention, and of a cluster that joins: nothing is asked for in vain."""

import msgspec

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers, decode_headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from schemas.pods import NodeRecord, encode_record
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.test_late_pieces import SECOND, START, reading

SETTINGS = MeterSettings(simulated_time=True)
FIRST = 1_000
"""Offset at which each log begins: what was below is deleted."""


def _clock(topic: str, offset: int, at_s: int, cluster: str) -> LogRecord:
    payload = encode_clock(ClockRecord(cluster=cluster, now_us=START + at_s * SECOND), b"", topic, 0)
    return LogRecord(offset, 0, encode_headers(Headers(record="clock", cluster=cluster)), payload)


def _reading(offset: int, seq: int, start_s: int, end_s: int, cluster: str) -> LogRecord:
    record = reading(offset, seq, start_s, end_s, end_s)
    headers = msgspec.structs.replace(decode_headers(record.headers), cluster=cluster)
    return LogRecord(offset, 0, encode_headers(headers), record.payload)


def _fed(begin: object, log: dict[str, list[LogRecord]]) -> tuple[PartitionMeter, list[dict[str, int]]]:
    """A meter that took a log step by step, and where each progress would begin."""
    meter, offsets = PartitionMeter(SETTINGS, Source(0), begin), []
    for step in range(max(map(len, log.values()))):
        for topic in INPUT_TOPICS:
            meter.feed(topic, log[topic][step : step + 1])
            while meter.close_ready() is not None:
                pass
            progress = meter.progress()
            offsets += [progress.offsets] if progress else []
    return meter, offsets


def test_progress_asks_for_nothing_that_the_log_did_not_have() -> None:
    """Where logs begin at 1,000, or have no record at all, no progress begins below; nor does one made from it."""
    log = {topic: [_clock(topic, FIRST + i, 5 * i, "c") for i in range(60)] for topic in INPUT_TOPICS}
    log[POD_MAPPINGS] = []
    meter, offsets = _fed(dict.fromkeys(INPUT_TOPICS, FIRST), log)
    again, more = _fed(meter.progress(), log)
    assert offsets and more and again.position[POD_EVENTS] == FIRST + 60
    assert all(found[topic] >= FIRST for found in offsets + more for topic in INPUT_TOPICS)


def test_cluster_that_joins_asks_only_for_what_came_since() -> None:
    """A second cluster's first hours, or one that has no clock, do not send the next worker to the log's beginning."""
    hours = {topic: [_clock(topic, FIRST + i, 600 * i, "c") for i in range(40)] for topic in INPUT_TOPICS}
    meter, _ = _fed(dict.fromkeys(INPUT_TOPICS, FIRST), hours)
    joins = FIRST + 40
    headers = encode_headers(Headers(record="node", cluster="new", node="n"))
    meter.feed(POD_EVENTS, [LogRecord(joins, 0, headers, encode_record(NodeRecord(name="n")))])
    for at_s in (23_400, 24_000):
        progress = meter.progress()
        assert progress is not None
        behind = {topic: joins - progress.offsets[topic] for topic in (POD_MAPPINGS, POD_EVENTS)}
        # 2.5 hours of a clock every 10 minutes, and the record at which a window begins to read.
        assert all(0 <= records <= 17 for records in behind.values()), behind
        for topic in (GPU_SAMPLES, POD_MAPPINGS):
            meter.feed(topic, [_clock(topic, joins, at_s, "c"), _clock(topic, joins + 1, at_s, "new")])


def test_windows_that_are_closed_stay_so_where_the_first_clock_is_read_again() -> None:
    """A carry from before a cluster's first clock does not open again what was closed before the restart."""
    samples = [
        _clock(GPU_SAMPLES, 0, 0, "other"),
        _reading(1, 0, 0, 5, "c"),
        _clock(GPU_SAMPLES, 2, 1000, "other"),
        _clock(GPU_SAMPLES, 3, 200, "c"),
        _reading(4, 1, 195, 200, "c"),
        _clock(GPU_SAMPLES, 5, 260, "c"),
        _reading(6, 2, 255, 260, "c"),
    ]
    log = {topic: [_clock(topic, i, at_s, "c") for i, at_s in enumerate((0, 200, 260))] for topic in INPUT_TOPICS}
    log[GPU_SAMPLES] = samples
    meter = PartitionMeter(SETTINGS, Source(0))
    for topic in INPUT_TOPICS:
        meter.feed(topic, log[topic])
    while meter.close_ready() is not None:
        pass
    progress = meter.progress()
    assert progress is not None and meter.counts["windows"] > 0
    again = PartitionMeter(SETTINGS, Source(0), progress)
    for topic in INPUT_TOPICS:
        again.feed(topic, log[topic])
    while again.close_ready() is not None:
        pass
    assert progress.offsets[GPU_SAMPLES] <= 3, "the carry is not from before the first clock"
    assert again.counts["windows"] == 0
