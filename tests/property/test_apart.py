"""Readings that wait far ahead of the clock: the same rows, and nothing held with them."""

import random
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.gaps import Gap, encode_gap
from schemas.names import GPU_SAMPLES
from stream_jobs.core.apart import Apart
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from tests.golden.test_late_pieces import SECOND, START, clock, reading
from tests.property.drive import SETTINGS, SOURCE, content, run
from tests.property.workload import make_log

SEEDS = st.integers(0, 10_000)
HUNDRED = 100
GAP = encode_gap(Gap(epoch_us=1, first_seq=9, last_seq=9, start_us=START, end_us=START + 1))


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_readings_held_apart_give_the_same_rows(seed: int) -> None:
    """With readings held apart, however far ahead they are, rows are those of readings left together."""
    log = make_log(seed)
    with mock.patch.object(Apart, "settle", lambda self, arrive, readings: self._waiting.clear()):
        expected = content(run(log, random.Random(seed))[0])
    taken = []

    def note(self, cluster, node, arrived, record) -> None:
        held = cluster.nodes[node].buffered[-1:]
        if held and held[0].reading.offset == record.offset and record.offset % 3:
            taken.append(record.offset)
            self._waiting[record.offset % 2].append((held[0], arrived, record.payload))

    with mock.patch.object(Apart, "note", note):
        assert content(run(log, random.Random(seed))[0]) == expected
    assert taken


def _feed(far_s: int, append_s: int, cluster: str) -> list[LogRecord]:
    """A hundred readings at the clock of cluster c and one at some seconds, with the append time of all of them."""
    near = [(reading(0, 0, 0, 5, 5), "c", f"n{n}") for n in range(HUNDRED)]
    records = []
    for record, name, node in (*near, (reading(0, 0, far_s, far_s + 5, far_s + 5), cluster, "far")):
        given = {"node": node.encode(), "cluster": name.encode()}
        headers = [(key, given.get(key, value)) for key, value in record.headers]
        records.append(LogRecord(len(records) + 2, append_s * SECOND, headers, record.payload))
    return records


def _held_with(meter: PartitionMeter, cluster: str) -> int:
    """Messages in the block of the reading of `far`."""
    (held,) = meter._clusters[cluster].nodes["far"].buffered
    return len(held.reading.block.devices)


@pytest.mark.parametrize("far_s", [120, 40_000])
def test_a_reading_far_ahead_holds_no_message_but_its_own(far_s: int) -> None:
    """Among a hundred readings at the clock, one that is minutes or hours ahead keeps itself alone."""
    meter = PartitionMeter(SETTINGS, SOURCE)
    meter.feed(GPU_SAMPLES, [clock(GPU_SAMPLES, 0, 0), *_feed(far_s, 0, "c")])
    assert _held_with(meter, "c") == 1


def test_a_reading_of_a_cluster_without_a_clock_holds_no_message_of_others() -> None:
    """Once a cluster has had no clock for a while, what it sends keeps itself alone, which else it does not."""
    meter, early = PartitionMeter(SETTINGS, SOURCE), PartitionMeter(SETTINGS, SOURCE)
    (told,) = [r for r in _feed(0, 0, "d") if ("cluster", b"d") in r.headers]
    empty = LogRecord(1, 0, [(k, {"record": b"gap", "version": b"1"}.get(k, v)) for k, v in told.headers], GAP)
    for each, append_s in ((meter, 100), (early, 0)):
        assert not each.feed(GPU_SAMPLES, [clock(GPU_SAMPLES, 0, 0), empty])
        each.feed(GPU_SAMPLES, _feed(5, append_s, "d"))
    assert (_held_with(meter, "d"), _held_with(early, "d")) == (1, HUNDRED + 1)


def test_readings_that_all_wait_stay_together() -> None:
    """While the clock stands still and all are ahead of it, none is decoded twice."""
    meter = PartitionMeter(SETTINGS, SOURCE)
    records = [r for r in _feed(900, 0, "c") if r.offset == HUNDRED + 2]
    more = [LogRecord(r.offset + n, 0, [(k, b"n%d" % n if k == "node" else v) for k, v in r.headers], r.payload)
            for r in records for n in range(5)]  # fmt: skip
    with mock.patch.object(PartitionMeter, "_arrive", autospec=True, side_effect=PartitionMeter._arrive) as arrive:
        meter.feed(GPU_SAMPLES, [clock(GPU_SAMPLES, 0, 0), *more])
    assert arrive.call_count == 1
