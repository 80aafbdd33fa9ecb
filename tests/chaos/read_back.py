"""Reads back what a seed left in Kafka: the input logs, every published copy, every progress record, dead letters."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from schemas.deadletters import decode_dead_letter
from schemas.names import DEAD_LETTERS, GPU_USAGE, INPUT_TOPICS, METER_PROGRESS
from schemas.usage import ALL_COLUMNS, KEY_COLUMNS
from stream_jobs.core.carry import Carry, decode_carry
from stream_jobs.core.contents import LogRecord
from stream_jobs.progress import Body
from tests.integration.harness import read_all

Key = tuple[Any, ...]
Row = dict[str, Any]
Logs = dict[int, dict[str, list[LogRecord]]]
"""Partition to topic to its records."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A published row, its partition, and when and where it was appended."""

    partition: int
    append_ms: int
    offset: int
    row: Row


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """A record of meter-progress and when it was appended."""

    partition: int
    append_ms: int
    offset: int
    offsets: dict[str, int]
    carry: Carry


def input_logs(bootstrap: str) -> Logs:
    """The input topics."""
    logs: Logs = defaultdict(lambda: {topic: [] for topic in INPUT_TOPICS})
    for message in read_all(bootstrap, list(INPUT_TOPICS)):
        headers = [(name, value or b"") for name, value in message.headers() or []]
        record = LogRecord(message.offset(), message.timestamp()[1] * 1000, headers, message.value() or b"")
        logs[message.partition()][message.topic()].append(record)
    return dict(logs)


class UsageLog:
    """gpu-usage, read on from where the last look ended."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "chaos-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        partitions = self._consumer.list_topics(GPU_USAGE, timeout=20).topics[GPU_USAGE].partitions
        self._consumer.assign([TopicPartition(GPU_USAGE, p, 0) for p in partitions])
        self.copies: dict[Key, list[Copy]] = defaultdict(list)
        self.next_offsets: dict[int, int] = dict.fromkeys(sorted(partitions), 0)

    def read(self, wait_s: float) -> None:
        """Takes what came within `wait_s`."""
        while (message := self._consumer.poll(wait_s)) is not None:
            if message.error() is not None:
                continue
            self.next_offsets[message.partition()] = message.offset() + 1
            for row in pa.ipc.open_stream(message.value()).read_all().to_pylist():
                copy = Copy(message.partition(), message.timestamp()[1], message.offset(), row)
                self.copies[tuple(row[name] for name in KEY_COLUMNS)].append(copy)

    def read_to_end(self) -> None:
        """Takes all that is there now."""
        ends = {
            p: self._consumer.get_watermark_offsets(TopicPartition(GPU_USAGE, p), timeout=20)[1]
            for p in self.next_offsets
        }
        while any(self.next_offsets[p] < end for p, end in ends.items()):
            self.read(1.0)

    def close(self) -> None:
        """Leaves the broker."""
        self._consumer.close()


def progress_records(bootstrap: str, group: str) -> list[ProgressRecord]:
    """Every whole progress record of a group, whether or not a commit ever pointed to it."""
    return joined(read_all(bootstrap, [METER_PROGRESS]), group)


def newest_progress(bootstrap: str, place: TopicPartition) -> ProgressRecord:
    """The last whole progress record of a partition, of the group that wrote last."""
    messages = [m for m in read_all(bootstrap, [place.topic]) if m.partition() == place.partition]
    return joined(messages, (messages[-1].key() or b"").decode().split("/")[0])[-1]


def joined(messages: Sequence[Message], group: str) -> list[ProgressRecord]:
    """The progress records of a group; one whose writer ended between its chunks is none."""
    found, parts = [], dict[tuple[str, ...], list[bytes]]()
    for message in messages:
        name, *writer, chunk = (message.key() or b"").decode().split("/")
        if name != group:
            continue
        place = (*writer,)
        parts[place] = [*(parts.get(place, []) if chunk != "0" else []), message.value() or b""]
        try:
            body = msgspec.msgpack.decode(b"".join(parts[place]), type=Body)
        except msgspec.DecodeError:
            # Truncated: the next chunk may come.
            continue
        where = message.partition(), message.timestamp()[1], message.offset()
        found.append(ProgressRecord(*where, body.offsets, decode_carry(body.carry)))
    return found


def refused_places(bootstrap: str) -> set[tuple[str, int, int]]:
    """(topic, partition, offset) of every dead letter."""
    letters = [decode_dead_letter(m.value() or b"") for m in read_all(bootstrap, [DEAD_LETTERS])]
    return {(letter.topic, letter.partition, letter.offset) for letter in letters}


CONTENT = [column.name for column in ALL_COLUMNS if column.name != "src_topic_id"]
"""All columns of a published row, with the evidence of its cuts; only the topic's id is not the log's to decide."""


def content_of(row: Row) -> tuple[Any, ...]:
    """A row as something to compare."""
    return tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in CONTENT)
