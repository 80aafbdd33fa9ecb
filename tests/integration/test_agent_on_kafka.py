"""The agent's producer and the whole agent on a real broker, also one that dies and one without topics yet."""

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from pyarrow import ipc

from collector.publish import Publisher
from infra.broker import topics
from infra.broker.kafka import LocalKafka
from infra.broker.ports import free_ports
from infra.sim.lockstep import Simulation, SimulationPlan, aligned_start_us
from schemas.headers import READING, SNAPSHOT, Headers, decode_headers
from schemas.ids import message_key, partition_of
from schemas.names import GPU_SAMPLES, POD_MAPPINGS
from schemas.samples import FIRST_READING
from schemas.snapshots import decode_snapshot
from tests.integration.pages import total, wait_ready

PARTITIONS = 3


def _messages(bootstrap: str, topic: str) -> list[Message]:
    """Everything on a topic, partition by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    found: list[Message] = []
    for partition in range(PARTITIONS):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(20)
            assert message is not None, f"{topic}/{partition} was not read to its end"
            if message.error():
                break
            found.append(message)
    consumer.close()
    return found


def _headers(number: int) -> Headers:
    return Headers(record=READING, cluster="c", node="node-1", seq=number)


@pytest.mark.needs_broker
def test_publisher_survives_the_death_of_its_broker(own_kafka: LocalKafka) -> None:
    """Messages queued before, while and after the broker was dead arrive once each, in order, none late to queue."""
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    publisher = Publisher("c", own_kafka.bootstrap)
    slowest = 0.0
    for number in range(300):
        if number == 100:
            publisher.flush(30)
            own_kafka.kill(0)
        begin = time.monotonic()
        assert publisher.produce(GPU_SAMPLES, "node-1", _headers(number), b"x" * 2000)
        publisher.poll()
        slowest = max(slowest, time.monotonic() - begin)
        if number == 200:
            own_kafka.restart(0)
    publisher.flush(60)
    assert slowest < 0.5
    found = _messages(own_kafka.bootstrap, GPU_SAMPLES)
    assert [decode_headers(message.headers()).seq for message in found] == list(range(300))
    assert {message.partition() for message in found} == {partition_of("c", "node-1", PARTITIONS)}
    assert {message.key() for message in found} == {message_key("c", "node-1")}
    assert (publisher.acknowledged, publisher.dropped, publisher.failed) == (300, 0, 0)


@pytest.mark.needs_broker
def test_publisher_waits_for_topics_that_are_made_later(own_kafka: LocalKafka) -> None:
    """Messages for a topic that is not there yet wait and go out in order when it is."""
    publisher = Publisher("c", own_kafka.bootstrap)
    for number in range(20):
        assert publisher.produce(POD_MAPPINGS, "node-1", _headers(number), b"x")
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    publisher.produce(POD_MAPPINGS, "node-1", _headers(20), b"x")
    publisher.flush(30)
    found = _messages(own_kafka.bootstrap, POD_MAPPINGS)
    assert [decode_headers(message.headers()).seq for message in found] == list(range(21))


@pytest.mark.needs_broker
def test_agent_on_a_simulated_node_is_whole(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """Pods of four seconds on a simulated node: spans touch, every process of a reading is in the snapshot it names."""
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    start_us = aligned_start_us(1_795_000_000_000_000)
    plan = SimulationPlan(own_kafka.bootstrap, tmp_path, start_us, scenario="short-pods", hours=0.1)
    with Simulation(plan) as simulation:
        simulation.run()
    snapshots = {
        snapshot.mapping_seq: {(one.pid, one.start_ticks): one for one in snapshot.processes}
        for message in _messages(own_kafka.bootstrap, POD_MAPPINGS)
        if decode_headers(message.headers()).record == SNAPSHOT
        for snapshot in [decode_snapshot(message.value() or b"")]
    }
    span_end_us, named, short = 0, 0, set()
    for message in _messages(own_kafka.bootstrap, GPU_SAMPLES):
        if decode_headers(message.headers()).record != READING:
            continue
        source = pa.BufferReader(message.value())
        [device] = ipc.open_stream(source).read_all().to_pylist()
        assert device["flags"] & FIRST_READING or device["span_start_us"] == span_end_us
        span_end_us = device["span_end_us"]
        for row in ipc.open_stream(source).read_all().to_pylist():
            identity = snapshots[device["mapping_seq"]][row["pid"], row["start_ticks"]]
            assert identity.kind == "container" and identity.pod_uid and len(identity.container_id) == 64
            named += 1
            if not row["lists"]:
                short.add(identity.pod_uid)
    assert named > 70
    assert len(short) >= 10


def test_agent_says_that_it_reads_and_delivers(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """An agent in real time is ready once the driver answers and the broker acknowledges, and counts both."""
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    (port,) = free_ports(1)
    command = [
        sys.executable, "-m", "infra.sim.node_process", "--scenario", "short-pods", "--live", "--node", "node-1",
        "--start-us", str(time.time_ns() // 1000), "--bootstrap-servers", own_kafka.bootstrap, "--out", str(tmp_path),
        "--agent", f"metrics_port={port}",
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as out:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=out)
    try:
        state = wait_ready(port, (tmp_path / "log").read_text)
        assert state.health is not None and state.health.process == "collector"
        assert state.health.loop_age_s < 10
        assert total(state, "gpumeter_collector_readings_total") >= 1
        assert state.numbers["gpumeter_messages_total"][("acknowledged",)] >= 1
        assert state.numbers["gpumeter_messages_total"][("dropped",)] == 0
        assert total(state, "gpumeter_collector_driver_ready") == 1
    finally:
        agent.kill()
        agent.wait()
