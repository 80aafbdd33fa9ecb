"""A small fleet as messages: what collectors and the watcher of N nodes would have sent over M minutes.

Deterministic: equal arguments give equal bytes in equal order. Two GPUs a node, each shared by two pods that use it by
turns; readings every 5 s, a snapshot every minute, the clock every 5 s and 480 s beyond the end.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import Producer

from schemas.clock import CLOCK_PERIOD_US, ClockRecord, encode_clock
from schemas.headers import CLOCK, NODE_EVENT, POD_EVENT, READING, SNAPSHOT, Headers, encode_headers
from schemas.ids import message_key, partition_of
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from schemas.pods import ContainerRecord, NodeRecord, Owner, PodRecord, Run, encode_record
from schemas.snapshots import DeviceSlots, Grant, ProcessIdentity, Snapshot, encode_snapshot
from stream_jobs.decode import encode_reading

CLUSTER = "fleet"
START_US = 1_790_000_040_000_000
RUN_ON_US = 480_000_000
PERIOD_US = 5_000_000
GPUS, PODS = 2, 4


class Sent(NamedTuple):
    """A message for one partition of an input topic."""

    topic: str
    partition: int
    key: bytes
    headers: list[tuple[str, bytes]]
    payload: bytes


class Node:
    """A node and what its collector and the watcher send of it."""

    def __init__(self, number: int, partitions: int) -> None:
        self.name = f"node-{number}"
        self.partition = partition_of(CLUSTER, self.name, partitions)
        self.gpus = [f"GPU-{number:04x}-{i}" for i in range(GPUS)]
        self.pods = [f"{number:08x}-0000-4000-8000-{i:012x}" for i in range(PODS)]
        self.random = random.Random(number)
        self.mapping_seq = 0
        self.seq = dict.fromkeys(INPUT_TOPICS, 0)

    def send(self, topic: str, record: str, payload: bytes, complete_to_us: int = 0) -> Sent:
        """A message with the next number of its topic."""
        self.seq[topic] += 1
        from_agent = topic != POD_EVENTS
        headers = Headers(
            record=record,
            cluster=CLUSTER,
            node=self.name,
            boot_id=f"boot-{self.name}" if from_agent else "",
            epoch_us=1_000_000 if from_agent else 0,
            seq=self.seq[topic],
            complete_to_us=complete_to_us,
        )
        return Sent(topic, self.partition, message_key(CLUSTER, self.name), encode_headers(headers), payload)

    def container(self, pod: int) -> str:
        """Id of a pod's container."""
        return f"{pod:02x}" * 32

    def snapshot(self, now_us: int) -> Sent:
        """The next snapshot."""
        self.mapping_seq += 1
        names = [f"pod-{i}" for i in range(PODS)]
        snapshot = Snapshot(
            mapping_seq=self.mapping_seq,
            taken_us=now_us,
            processes=[
                ProcessIdentity(
                    pid=100 + i, start_ticks=i + 1, kind="container", pod_uid=uid, container_id=self.container(i)
                )
                for i, uid in enumerate(self.pods)
            ],
            grants=[
                Grant(
                    gpu_uuid=self.gpus[i % GPUS],
                    slot=f"{self.gpus[i % GPUS]}::{i // GPUS}",
                    resource="nvidia.com/gpu",
                    namespace="team",
                    pod_name=names[i],
                    container_name="main",
                )
                for i in range(PODS)
            ],
            slots=[DeviceSlots(gpu_uuid=gpu, slots=PODS // GPUS) for gpu in self.gpus],
        )
        return self.send(POD_MAPPINGS, SNAPSHOT, encode_snapshot(snapshot))

    def facts(self, now_us: int) -> Iterator[Sent]:
        """The node's record and its pods'."""
        node = NodeRecord(name=self.name, capacity={"nvidia.com/gpu": PODS}, created_us=now_us - 10**9, seen_us=now_us)
        yield self.send(POD_EVENTS, NODE_EVENT, encode_record(node))
        for i, uid in enumerate(self.pods):
            run = Run(container_id=self.container(i), started_us=now_us - 60_000_000)
            container = ContainerRecord(name="main", requests={"nvidia.com/gpu": 1}, runs=[run])
            pod = PodRecord(
                uid=uid,
                namespace="team",
                name=f"pod-{i}",
                node=self.name,
                phase="Running",
                created_us=now_us - 61_000_000,
                owners=[Owner(kind="Job", name="job")],
                containers=[container],
                seen_us=now_us,
            )
            yield self.send(POD_EVENTS, POD_EVENT, encode_record(pod))

    def reading(self, now_us: int) -> Sent:
        """The next reading."""
        sums = [self.random.randrange(0, 3001) for _ in self.gpus]
        shares = [self.random.random() for _ in self.gpus]
        size, column = GPUS, list
        device = {
            "gpu_uuid": self.gpus, "gpu_index": column(range(size)), "gpu_model": ["H200"] * size,
            "read_us": [now_us] * size, "span_start_us": [now_us - PERIOD_US] * size, "span_end_us": [now_us] * size,
            "sample_count": [30] * size, "sample_sum_points": sums, "samples_status": [0] * size,
            "processes_status": [0] * size, "lists_status": [0] * size, "memory_total_bytes": [80 << 30] * size,
            "memory_used_bytes": [8 << 30] * size, "energy_start_mj": [(now_us - PERIOD_US) // 10_000] * size,
            "energy_end_mj": [now_us // 10_000] * size, "energy_status": [0] * size, "mig_mode": [0] * size,
            "mapping_seq": [self.mapping_seq] * size, "dropped_rows": [0] * size, "flags": [0] * size,
        }  # fmt: skip
        pods = range(PODS)
        points = [int(sums[i % GPUS] / 30 * (shares[i % GPUS] if i < GPUS else 1 - shares[i % GPUS])) for i in pods]
        process = {
            "device_row": [i % GPUS for i in pods], "pid": [100 + i for i in pods],
            "start_ticks": [i + 1 for i in pods],
            "sm_util_points": points, "mem_util_points": [0] * PODS, "enc_util_points": [-1] * PODS,
            "dec_util_points": [-1] * PODS, "memory_used_bytes": [4 << 30] * PODS, "lists": [1] * PODS,
            "gpu_instance_id": [-1] * PODS, "compute_instance_id": [-1] * PODS,
        }  # fmt: skip
        return self.send(GPU_SAMPLES, READING, encode_reading(device, process), complete_to_us=now_us)


def messages(nodes: int, minutes: int, partitions: int) -> Iterator[Sent]:
    """Everything that `nodes` nodes and the watcher sent, in the order of simulated time."""
    fleet = [Node(number, partitions) for number in range(nodes)]
    end_us = START_US + minutes * 60_000_000
    for node in fleet:
        yield from node.facts(START_US)
    for now_us in range(START_US, end_us + RUN_ON_US, CLOCK_PERIOD_US):
        for node in fleet if now_us <= end_us else []:
            if (now_us - START_US) % 60_000_000 == 0:
                yield node.snapshot(now_us)
            yield node.reading(now_us)
        yield from clocks(now_us, partitions)


def clocks(now_us: int, partitions: int) -> Iterator[Sent]:
    """The clock's records at one time, one for each partition of each input topic."""
    headers = encode_headers(Headers(record=CLOCK, cluster=CLUSTER))
    for topic in INPUT_TOPICS:
        for partition in range(partitions):
            payload = encode_clock(ClockRecord(cluster=CLUSTER, now_us=now_us), b"", topic, partition)
            yield Sent(topic, partition, CLUSTER.encode(), headers, payload)


def publish(bootstrap_servers: str, sent: Iterator[Sent] | list[Sent]) -> int:
    """Sends all and returns how many once they are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "compression.type": "lz4"})
    count = 0
    for message in sent:
        producer.produce(
            message.topic, message.payload, message.key, partition=message.partition, headers=list(message.headers)
        )
        count += 1
        if count % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    return count
