"""Fills a real Kafka with messages and counts what is there; the benchmarks' only Kafka client.

Readings and snapshots go one in a batch, since each comes from a node of its own; what the watcher writes goes in
batches. Compression and acknowledgement are those of the shipped senders.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from infra.bench.errors import BenchError
from infra.bench.fleet_log import Sent
from infra.broker import topics
from infra.broker.kafka import LocalKafka
from schemas.names import POD_EVENTS

Options = dict[str, str | int | float | bool]
_LIKE_THE_SENDERS: Options = {
    "acks": "all", "enable.idempotence": True, "compression.type": "lz4", "log_level": 2,
    "queue.buffering.max.messages": 20_000, "queue.buffering.max.kbytes": 512 << 10,
}  # fmt: skip
_TOGETHER = {"group.initial.rebalance.delay.ms": "3000"}
"""Workers that start together share the partitions from the first; else one begins with all and is interrupted."""
NODE_BY_NODE: Options = {"linger.ms": 0, "batch.num.messages": 1}
_FLUSH_S = 120.0
Told = Callable[[int, int], None]
"""Takes the offset of an acknowledged message and when it was appended, microseconds by the broker's clock."""
_ANSWER_S = 20.0


@contextmanager
def broker(folder: Path | None, *, partitions: int | None) -> Iterator[str]:
    """Address of a fresh broker, with the catalogue's topics where their partitions are named; gone at the end."""
    with (
        TemporaryDirectory(prefix="gpumeter-bench-", dir=folder) as place,
        LocalKafka(Path(place, "kafka"), extra=_TOGETHER) as kafka,
    ):
        if partitions is not None:
            topics.apply(kafka.bootstrap, partitions=partitions)
        yield kafka.bootstrap


class Filled(NamedTuple):
    """What was put into a log."""

    messages: int
    bytes: int


def fill(bootstrap: str, sent: Iterable[Sent]) -> Filled:
    """Sends a fleet's log, each partition in order, as fast as the broker takes it; BenchError where it does not."""
    sender = Sender(bootstrap, nodes=NODE_BY_NODE, watcher={"linger.ms": 5})
    for message in sent:
        sender.put(producer_of(message), message)
    return sender.finish()


def fill_plain(bootstrap: str, topic: str, records: Iterable[tuple[int, bytes, bytes]]) -> Filled:
    """Sends (partition, key, payload) to a topic, in batches as large as they come."""
    sender = Sender(bootstrap, plain={"linger.ms": 20, "batch.size": 1_000_000})
    for partition, key, payload in records:
        sender.put("plain", Sent(0, topic, partition, key, [], payload))
    return sender.finish()


class Sender:
    """Producers by name, each with options of its own over those of the shipped senders."""

    def __init__(self, bootstrap: str, **producers: Options) -> None:
        self._failed: list[str] = []
        common = _LIKE_THE_SENDERS | {"bootstrap.servers": bootstrap}
        self._producers = {name: Producer(common | options) for name, options in producers.items()}
        self._messages = self._bytes = 0

    def put(self, producer: str, sent: Sent, told: Told | None = None) -> None:
        """Queues a message, waiting while the queue is full."""
        own, done = self._producers[producer], partial(self._done, told)
        while True:
            try:
                own.produce(
                    sent.topic,
                    sent.payload,
                    sent.key,
                    partition=sent.partition,
                    headers=list(sent.headers),
                    on_delivery=done,
                )
                break
            except BufferError:
                own.poll(0.05)
        self._messages += 1
        self._bytes += len(sent.payload)
        if self._messages % 256 == 0:
            own.poll(0)

    def poll(self, wait_s: float) -> None:
        """Serves acknowledgements for so long."""
        for own in self._producers.values():
            own.poll(wait_s / len(self._producers))

    def finish(self) -> Filled:
        """How much was sent, all of it acknowledged; BenchError where something was not."""
        left = sum(own.flush(_FLUSH_S) for own in self._producers.values())
        if left or self._failed:
            raise BenchError(f"the broker did not take {left + len(self._failed)} messages: {self._failed[:1]}")
        return Filled(self._messages, self._bytes)

    def _done(self, told: Told | None, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error.str())
        elif told is not None:
            told(int(message.offset() or 0), int(message.timestamp()[1]) * 1000)


def producer_of(sent: Sent) -> str:
    """Which producer sends a message of a fleet: what the watcher writes goes in batches."""
    return "watcher" if sent.topic == POD_EVENTS else "nodes"


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    """A plain topic for another program's input or output; it keeps records of any time."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, partitions, 1, config={"retention.ms": "-1"})])[name].result(_ANSWER_S)


def records_in(bootstrap: str, topic: str) -> int:
    """Records that a topic holds."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count", "log_level": 3})
    try:
        partitions = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
        marks = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=_ANSWER_S) for p in partitions]
        return sum(high - low for low, high in marks)
    finally:
        consumer.close()


def read_whole(bootstrap: str, topic: str) -> Iterator[Message]:
    """Every record that a topic holds now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "read", "log_level": 2, "enable.partition.eof": True}
    )
    try:
        open_places = set(consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, p, 0) for p in open_places])
        deadline = time.monotonic() + _FLUSH_S
        while open_places and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is None:
                yield message
            else:
                open_places.discard(message.partition())
    finally:
        consumer.close()


def append_times_us(bootstrap: str, topic: str) -> dict[tuple[int, int], int]:
    """(partition, offset) of every record that a topic holds to when it was appended."""
    return {
        (int(message.partition() or 0), int(message.offset() or 0)): int(message.timestamp()[1]) * 1000
        for message in read_whole(bootstrap, topic)
    }
