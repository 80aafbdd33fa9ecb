"""The log of the fleet bench: cheap to make, and still what a fleet would have sent."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from infra.bench.fleet_log import Sent, messages
from infra.bench.payload import ReadingPayload, gpu_uuid
from infra.bench.shape import GPUS_A_NODE, SECOND_US, START_US, FleetShape
from schemas.clock import decode_clock
from schemas.headers import CLOCK, READING, SNAPSHOT, decode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import decode_node, decode_pod
from schemas.snapshots import decode_snapshot
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.decode import decode_reading

SHAPE = FleetShape(nodes=6, windows=2, partitions=1)


def of_record(record: str, sent: list[Sent]) -> list[Sent]:
    """Messages of one kind."""
    return [message for message in sent if decode_headers(message.headers).record == record]


def test_payload_that_was_patched_decodes_to_its_own_node_and_time() -> None:
    """Two payloads of one maker differ in node, time and energy, and each keeps nothing of the other."""
    maker = ReadingPayload(SHAPE)
    first, _ = maker.make(3, 5_000_000, 0, 1)
    second, complete_us = maker.make(4, 7_000_000, 2, 9)
    device, process = decode_reading(second)
    assert len(device["read_us"]) == SHAPE.flush_s * GPUS_A_NODE
    assert len(process["pid"]) == SHAPE.rows_a_message
    assert set(device["gpu_uuid"]) == {gpu_uuid("00000004", gpu) for gpu in range(GPUS_A_NODE)}
    assert set(device["mapping_seq"].tolist()) == {9}
    assert device["read_us"].min() == START_US + 7_000_000 + 2 * SHAPE.flush_us + SECOND_US
    assert device["span_end_us"][-GPUS_A_NODE:].min() == complete_us
    assert set(decode_reading(first)[0]["gpu_uuid"]) == {gpu_uuid("00000003", gpu) for gpu in range(GPUS_A_NODE)}


def test_spans_of_a_gpu_follow_each_other_without_a_gap() -> None:
    """Over all messages of a node each GPU's readings touch, in time and in energy, so nothing is unobserved within."""
    readings = of_record(READING, list(messages(SHAPE)))
    by_gpu = defaultdict(list)
    for message in readings:
        device, _ = decode_reading(message.payload)
        for uuid, *ends in zip(
            device["gpu_uuid"], device["span_start_us"], device["span_end_us"], device["energy_start_mj"],
            device["energy_end_mj"], strict=True,
        ):  # fmt: skip
            by_gpu[uuid].append(ends)
    assert len(by_gpu) == SHAPE.gpus
    for spans in by_gpu.values():
        start, end, energy_start, energy_end = np.array(spans).T
        assert (start[1:] == end[:-1]).all() and (energy_start[1:] == energy_end[:-1]).all()


def test_log_has_the_shipped_cadences() -> None:
    """Every node reads each second and snaps each minute, clocks come every 5 s on each topic, pods once."""
    sent = list(messages(SHAPE))
    assert [message.at_us for message in sent] == sorted(message.at_us for message in sent)
    assert len(of_record(READING, sent)) == SHAPE.messages
    snapshots = [decode_snapshot(message.payload) for message in of_record(SNAPSHOT, sent)]
    assert len(snapshots) == SHAPE.nodes * (SHAPE.seconds // 60 + 1)
    assert all(len(snapshot.processes) == GPUS_A_NODE * SHAPE.processes for snapshot in snapshots)
    for topic in (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS):
        clocks = of_record(CLOCK, [message for message in sent if message.topic == topic])
        times = [decode_clock(clock.payload, b"", topic, 0).now_us for clock in clocks]
        assert times[-1] >= START_US + SHAPE.seconds * SECOND_US
        assert {later - earlier for earlier, later in pairwise(times)} == {5 * SECOND_US}
    events = [message for message in sent if message.topic == POD_EVENTS]
    pods = {decode_pod(message.payload).uid for message in of_record("pod", events)}
    assert len(pods) == SHAPE.gpus * SHAPE.pods
    assert {decode_node(message.payload).name for message in of_record("node", events)} == set(SHAPE.node_names())


@pytest.mark.parametrize(("window_s", "lateness_s"), [(60, 10), (30, 0), (15, 40)])
def test_windows_of_a_shape_are_those_that_the_meter_closes(window_s: int, lateness_s: int) -> None:
    """What a run is judged by is what the meter does: as many windows, all observed, every pod known."""
    meter = PartitionMeter(
        MeterSettings(window_us=window_s * SECOND_US, lateness_us=lateness_s * SECOND_US, simulated_time=True),
        Source(0),
    )
    records: dict[str, list[LogRecord]] = defaultdict(list)
    for message in messages(SHAPE):
        own = records[message.topic]
        own.append(LogRecord(len(own), message.at_us, message.headers, message.payload))
    for topic, own in records.items():
        assert not meter.feed(topic, own)
    kinds: set[str] = set()
    while (table := meter.close_ready()) is not None:
        kinds.update(table["holder_kind"].to_pylist())
    assert meter.counts["windows"] == SHAPE.windows_in_all(window_s, lateness_s) > SHAPE.nodes
    assert meter.counts["violations"] == 0
    assert kinds == {"pod", "unobserved"}
