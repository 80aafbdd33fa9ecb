"""The log of a fleet: the messages of all three input topics in the order in which they would have been appended.

At the shipped cadences: readings at 1 Hz in messages of 15 s, a snapshot each minute, each pod and node once, clocks
every 5 s to every partition. Deterministic: an equal shape gives equal bytes. Knows no Kafka.
"""

from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

from infra.bench.facts import Facts
from infra.bench.payload import ReadingPayload
from infra.bench.shape import CLUSTER, SECOND_US, SNAPSHOT_US, FleetShape, node_name
from schemas.clock import CLOCK_PERIOD_US, ClockRecord, encode_clock
from schemas.headers import CLOCK, NODE_EVENT, POD_EVENT, READING, SNAPSHOT, Headers, encode_headers
from schemas.ids import message_key, partition_of
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS

EPOCH_US = 1_000_000


class Sent(NamedTuple):
    """A message for one partition of an input topic, `at_us` after the start of event time."""

    at_us: int
    topic: str
    partition: int
    key: bytes
    headers: list[tuple[str, bytes]]
    payload: bytes


def messages(shape: FleetShape, only_partition: int | None = None) -> Iterator[Sent]:
    """Everything that the fleet's agents and its watcher send, in time's order; of one partition or of all."""
    partitions = [partition_of(CLUSTER, name, shape.partitions) for name in shape.node_names()]
    nodes = [node for node, at in enumerate(partitions) if only_partition in (None, at)]
    log = _FleetLog(shape, partitions)
    clocks = log.clocks([only_partition] if only_partition is not None else list(range(shape.partitions)))
    streams = (log.facts(nodes), log.snapshots(nodes), log.readings(nodes), clocks)
    return merge(*streams, key=lambda sent: sent.at_us)


def standing(shape: FleetShape) -> Iterator[Sent]:
    """Only what the log begins with and a running worker has known for long: every node and pod."""
    partitions = [partition_of(CLUSTER, name, shape.partitions) for name in shape.node_names()]
    return _FleetLog(shape, partitions).facts(list(range(shape.nodes)))


class _FleetLog:
    def __init__(self, shape: FleetShape, partitions: list[int]) -> None:
        self._shape, self._partitions = shape, partitions
        self._end_us = shape.seconds * SECOND_US
        self._facts, self._payload = Facts(shape), ReadingPayload(shape)

    def facts(self, nodes: list[int]) -> Iterator[Sent]:
        for node in nodes:
            yield self._sent(0, POD_EVENTS, NODE_EVENT, node, self._facts.node(node))
            for payload in self._facts.pods(node):
                yield self._sent(0, POD_EVENTS, POD_EVENT, node, payload)

    def snapshots(self, nodes: list[int]) -> Iterator[Sent]:
        for number in range(self._end_us // SNAPSHOT_US + 1):
            for node in nodes:
                at_us = number * SNAPSHOT_US + self._shape.phase_us(node)
                payload = self._facts.snapshot(node, number + 1, self._shape.start_us + at_us)
                if at_us <= self._end_us:
                    yield self._sent(at_us, POD_MAPPINGS, SNAPSHOT, node, payload, number + 1)

    def readings(self, nodes: list[int]) -> Iterator[Sent]:
        for number in range(self._end_us // self._shape.flush_us):
            mapping_seq = number * self._shape.flush_us // SNAPSHOT_US + 1
            for node in nodes:
                phase_us = self._shape.phase_us(node)
                at_us = phase_us + (number + 1) * self._shape.flush_us
                if at_us <= self._end_us:
                    payload, complete_us = self._payload.make(node, phase_us, number, mapping_seq)
                    yield self._sent(at_us, GPU_SAMPLES, READING, node, payload, number + 1, complete_us)

    def clocks(self, partitions: list[int]) -> Iterator[Sent]:
        headers = encode_headers(Headers(record=CLOCK, cluster=CLUSTER))
        for at_us in range(0, self._end_us + CLOCK_PERIOD_US, CLOCK_PERIOD_US):
            record = ClockRecord(cluster=CLUSTER, now_us=self._shape.start_us + at_us)
            for topic in INPUT_TOPICS:
                for partition in partitions:
                    payload = encode_clock(record, b"", topic, partition)
                    yield Sent(at_us, topic, partition, CLUSTER.encode(), headers, payload)

    def _sent(
        self, at_us: int, topic: str, record: str, node: int, payload: bytes, seq: int = 0, complete_us: int = 0
    ) -> Sent:
        name, from_agent = node_name(node), topic != POD_EVENTS
        headers = Headers(
            record=record,
            cluster=CLUSTER,
            node=name,
            boot_id=f"boot-{name}" if from_agent else "",
            epoch_us=EPOCH_US if from_agent else 0,
            seq=seq,
            complete_to_us=complete_us,
        )
        key = message_key(CLUSTER, name)
        return Sent(at_us, topic, self._partitions[node], key, encode_headers(headers), payload)
