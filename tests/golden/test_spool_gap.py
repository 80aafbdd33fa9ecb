"""A story: a node is silent for minutes, then tells that its spool had no room for them."""

import pytest

from schemas.gaps import Gap, encode_gap
from schemas.headers import Headers, encode_headers
from schemas.names import GPU_SAMPLES
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.test_late_pieces import SECOND, START, clock, reading

SETTINGS = MeterSettings(simulated_time=True)


@pytest.mark.parametrize("restart_s", [None, 205, 250])
def test_windows_of_a_told_gap_say_so_after_a_restart_too(restart_s: int | None) -> None:
    """Windows that the gap touches are flagged and no others, though no reading holds progress back at the gap."""
    meter, offsets, flags = PartitionMeter(SETTINGS, Source(0)), dict.fromkeys(TOPICS, 0), dict[int, bool]()
    logs: dict[str, list[LogRecord]] = {topic: [] for topic in TOPICS}

    def put(topic: str, record: LogRecord) -> None:
        logs[topic].append(LogRecord(offsets[topic], record.append_us, record.headers, record.payload))
        offsets[topic] += 1
        meter.feed(topic, logs[topic][-1:])

    gap = Gap(epoch_us=1, first_seq=8, last_seq=9, start_us=START + 70 * SECOND, end_us=START + 130 * SECOND)
    told = Headers(record="gap", cluster="c", node="n", boot_id="b", epoch_us=1, seq=9)
    for at_s in range(0, 900, 5):
        for topic in TOPICS:
            put(topic, clock(topic, 0, at_s))
        if at_s in (5, 200):
            put(GPU_SAMPLES, reading(0, at_s, at_s - 5, at_s, at_s))
        if at_s == 180:
            put(GPU_SAMPLES, LogRecord(0, 0, encode_headers(told), encode_gap(gap)))
        if at_s == restart_s:
            progress = meter.progress()
            meter = PartitionMeter(SETTINGS, Source(0), progress)
            for topic in TOPICS:
                meter.feed(topic, logs[topic][meter.position[topic] :])
        table = meter.close_ready()
        for row in table.to_pylist() if table else []:
            flags[(row["window_start_us"] - START) // SECOND] = "spool_gap" in row["flags"]
    assert {start for start, flagged in flags.items() if flagged} == {60, 120}
    assert set(flags) >= {0, 60, 120, 180, 240}
