"""Records that would count twice, fill memory or stop a partition for good are refused, each with what is wrong."""

import msgspec
import pytest

from schemas.gaps import Gap, encode_gap
from schemas.headers import Headers, encode_headers
from schemas.ids import partition_of
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.snapshots import ProcessIdentity
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.identity import Directory
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.decode import decode_reading, encode_reading
from tests.golden.test_late_pieces import SECOND, START, clock, reading

SETTINGS = MeterSettings(simulated_time=True)


def test_node_of_another_partition_is_refused() -> None:
    """A sender that knows another number of partitions would have its node metered twice."""
    right = partition_of("c", "n", 24)
    for partition in (right, right - 12 if right >= 12 else right + 12):
        meter = PartitionMeter(SETTINGS, Source(partition, "", 24))
        refused = meter.feed(GPU_SAMPLES, [reading(0, 0, 0, 5, 5)])
        assert [r.reason for r in refused] == ([] if partition == right else ["partition"])
    assert f"belongs on partition {right} of 24" in refused[0].detail


@pytest.mark.parametrize(("cluster", "node"), [("", "n"), ("c", "")])
def test_record_of_no_node_is_refused(cluster: str, node: str) -> None:
    """The ledger has no row without cluster and node."""
    headers = encode_headers(Headers(record="reading", cluster=cluster, node=node, boot_id="b"))
    record = LogRecord(0, 0, headers, reading(0, 0, 0, 5, 5).payload)
    (refused,) = PartitionMeter(SETTINGS, Source(0)).feed(GPU_SAMPLES, [record])
    assert (refused.reason, "neither may be empty" in refused.detail) == ("headers", True)


def test_gpu_without_a_name_is_refused() -> None:
    """Its rows would take all rows of the node with them into the dead letters of the sink."""
    given = reading(0, 0, 0, 5, 5)
    device, process = decode_reading(given.payload)
    device["gpu_uuid"][0] = ""
    record = LogRecord(0, 0, given.headers, encode_reading(device, process))
    (refused,) = PartitionMeter(SETTINGS, Source(0)).feed(GPU_SAMPLES, [record])
    assert "column gpu_uuid holds an empty text" in refused.detail


def test_reading_that_touches_years_is_refused() -> None:
    """A node whose clock was set in the middle of a message names 1970 and now: no window in between is touched."""
    given = reading(0, 0, 0, 5, 5)
    device, process = decode_reading(given.payload)
    device = {name: column.repeat(2) for name, column in device.items()}
    device["gpu_uuid"][1] = "GPU-2"
    for name in ("read_us", "span_start_us", "span_end_us"):
        device[name][1] = 0
    meter = PartitionMeter(SETTINGS, Source(0))
    (refused,) = meter.feed(GPU_SAMPLES, [LogRecord(0, 0, given.headers, encode_reading(device, process))])
    assert "reading touches 1800000005 s" in refused.detail


def test_gap_of_years_touches_the_reach_at_most() -> None:
    """Without a clock yet, a gap from 1970 on costs as many windows as may still be revised."""
    meter = PartitionMeter(SETTINGS, Source(0))
    headers = encode_headers(Headers(record="gap", cluster="c", node="n", boot_id="b", epoch_us=1, seq=1))
    gap = encode_gap(Gap(epoch_us=1, first_seq=1, last_seq=1, start_us=0, end_us=START + 5 * SECOND))
    year_s = START // SECOND
    records = [reading(0, 0, 10 - year_s, 15 - year_s, 5), LogRecord(1, 0, headers, gap)]
    assert meter.feed(GPU_SAMPLES, records) == []
    assert len(meter.repairs._clusters["c"].ranges) <= SETTINGS.reach_us // SETTINGS.window_us + 2


def test_clock_read_again_sets_no_cluster_back() -> None:
    """Topics are read again at their own speed: a cluster that was heard of later is not forgotten for an old clock."""
    meter = PartitionMeter(MeterSettings(simulated_time=True, reach_us=3600 * SECOND), Source(0))
    for topic, append_s in ((GPU_SAMPLES, 7000), (POD_MAPPINGS, 7000), (POD_EVENTS, 100)):
        given = clock(topic, 0, 0)
        meter.feed(topic, [LogRecord(0, START + append_s * SECOND, given.headers, given.payload)])
    other = msgspec.json.encode({"cluster": "d", "now_us": START, "override": False, "signature": ""})
    headers = encode_headers(Headers(record="clock", cluster="d"))
    meter.feed(POD_EVENTS, [LogRecord(1, START + 7100 * SECOND, headers, other)])
    assert meter.forgotten == []


def test_clock_that_does_not_count_lets_lost_clusters_go() -> None:
    """A cluster whose every clock is refused or far ahead is forgotten by these, though no other cluster is there."""
    meter = PartitionMeter(MeterSettings(reach_us=3600 * SECOND), Source(0))
    given = reading(0, 0, 0, 5, 5)
    meter.feed(GPU_SAMPLES, [LogRecord(0, START, given.headers, given.payload)])
    far = clock(GPU_SAMPLES, 1, 90_000)
    meter.feed(GPU_SAMPLES, [LogRecord(1, START + 3_700 * SECOND, far.headers, far.payload)])
    assert meter.forgotten == ["c"]


@pytest.mark.parametrize(
    ("reason", "flag"), [("gone", "gone"), ("", "unknown_process"), ("x" * 500, "unknown_process")]
)
def test_reason_of_an_unknown_process_is_one_of_a_few(reason: str, flag: str) -> None:
    """What a snapshot says beside these is no flag: thousands of them would make a row too large to publish."""
    process = ProcessIdentity(pid=7, start_ticks=70, kind="unknown", reason=reason)
    assert Directory([]).holder_of_process(process).flags == {flag}
