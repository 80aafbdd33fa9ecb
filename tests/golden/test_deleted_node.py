"""A story: a node is deleted, and the log goes on for hours."""

import pytest

from schemas.headers import Headers, encode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import NodeRecord, encode_record
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.test_late_pieces import SECOND, START, clock, reading

SETTINGS = MeterSettings(simulated_time=True)
HOURS = 3
BACK_S = 2 * 3600 + 120
"""Windows from here on do not see what was told before the third minute."""


@pytest.mark.parametrize("restart_s", [None, 600, 2 * 3600 + 600])
def test_deleted_node_stays_gone_when_its_record_is_out_of_reach(restart_s: int | None) -> None:
    """The deletion is published once; beyond what a window reads back, and after a restart, no row comes either."""
    meter, offsets, windows = PartitionMeter(SETTINGS, Source(0)), dict.fromkeys(TOPICS, 0), set[int]()
    logs: dict[str, list[LogRecord]] = {topic: [] for topic in TOPICS}

    def put(topic: str, record: LogRecord) -> None:
        logs[topic].append(LogRecord(offsets[topic], record.append_us, record.headers, record.payload))
        offsets[topic] += 1
        meter.feed(topic, logs[topic][-1:])

    deleted_us = START + 130 * SECOND
    gone = encode_record(NodeRecord(name="n", deleted_us=deleted_us, seen_us=deleted_us))
    for at_s in range(0, HOURS * 3600, 5):
        for topic in TOPICS:
            put(topic, clock(topic, 0, at_s))
        if 5 <= at_s <= 120:
            put(GPU_SAMPLES, reading(0, at_s, at_s - 5, at_s, at_s))
        if at_s == 130:
            put(POD_EVENTS, LogRecord(0, 0, encode_headers(Headers(record="node", cluster="c", node="n")), gone))
        if at_s == restart_s:
            meter = PartitionMeter(SETTINGS, Source(0), meter.progress())
            for topic in TOPICS:
                meter.feed(topic, logs[topic][meter.position[topic] :])
        table = meter.close_ready()
        windows |= {(row["window_start_us"] - START) // SECOND for row in table.to_pylist()} if table else set()
    assert windows == {0, 60}


def test_node_that_was_never_deleted_ends_at_the_reach() -> None:
    """Of a node that is silent and never told to be deleted, rows of unobserved time end at the reach, not never."""
    meter = PartitionMeter(MeterSettings(simulated_time=True, reach_us=1800 * SECOND), Source(0))
    windows: set[int] = set()
    for offset, at_s in enumerate(range(0, 2 * 3600, 5)):
        for topic in TOPICS:
            first = 2 * offset if topic == GPU_SAMPLES else offset
            meter.feed(topic, [clock(topic, first, at_s)])
        end_s = min(at_s, 115) + 5
        complete = reading(2 * offset + 1, min(offset, 23), end_s - 5, end_s, end_s)
        meter.feed(GPU_SAMPLES, [complete])
        table = meter.close_ready()
        windows |= {(row["window_start_us"] - START) // SECOND for row in table.to_pylist()} if table else set()
    assert windows == set(range(0, 120 + 1800 + 60, 60))


def test_node_that_comes_back_long_after_its_deletion_is_there_again() -> None:
    """Its deletion was of a life that is over: while the watcher is away its silent minutes are unobserved."""
    meter = PartitionMeter(MeterSettings(simulated_time=True, reach_us=1800 * SECOND), Source(0))
    gone = encode_record(NodeRecord(name="n", deleted_us=START + 130 * SECOND, seen_us=START + 130 * SECOND))
    meter.feed(POD_EVENTS, [LogRecord(0, 0, encode_headers(Headers(record="node", cluster="c", node="n")), gone)])
    offset, silent = 0, set[int]()
    for number, at_s in enumerate(range(0, 3 * 3600, 5)):
        for topic, first in ((GPU_SAMPLES, offset), (POD_MAPPINGS, number), (POD_EVENTS, number + 1)):
            meter.feed(topic, [clock(topic, first, at_s)])
        offset += 1
        if 5 <= at_s <= 120 or BACK_S < at_s <= BACK_S + 120:
            meter.feed(GPU_SAMPLES, [reading(offset, number, at_s - 5, at_s, at_s)])
            offset += 1
        rows = table.to_pylist() if (table := meter.close_ready()) else []
        silent |= {(r["window_start_us"] - START) // SECOND for r in rows if r["observed_us"] == 0}
    assert silent and min(silent) == BACK_S + 120
    assert silent == set(range(min(silent), min(silent) + 1800 + 60, 60))
