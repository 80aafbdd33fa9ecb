"""Reads parts of a partition's log again, for repair passes: exactly the records between two offsets.

Blocking, so called from a thread; a consumer outside any group that commits nothing. Law: every record of the parts,
in order, and no other (tests/integration/test_revisions_on_kafka.py).
"""

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .clock import monotonic_s
from .core.contents import LogRecord
from .errors import Retry
from .lane import LogGoneError, Parts

_SILENCE_S = 30.0
_BATCH = 10_000


class PartReader:
    """A reader of one cluster's log; its connection is made at the first part and kept."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._consumer: Consumer | None = None

    def read(self, partition: int, parts: Parts) -> dict[str, list[LogRecord]]:
        """The records of the parts; LogGoneError where some were deleted, Retry where the broker is away."""
        try:
            return {
                topic: [record for first, last in some for record in self._part(topic, partition, first, last)]
                for topic, some in parts.items()
            }
        except KafkaException as error:
            raise Retry(f"parts of partition {partition} cannot be read: {error.args[0].str()}") from error

    def _part(self, topic: str, partition: int, first: int, last: int) -> list[LogRecord]:
        consumer = self._connected()
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SILENCE_S)
        if start > first:
            raise LogGoneError(f"{topic}/{partition} begins at {start}, records from {first} on are needed")
        consumer.assign([TopicPartition(topic, partition, first)])
        found: list[LogRecord] = []
        heard_s = monotonic_s()
        while True:
            for message in consumer.consume(_BATCH, 1.0):
                error, is_past = message.error(), int(message.offset() or 0) >= last
                is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
                if error is not None and not is_end:
                    raise KafkaException(error)
                if is_past:
                    return found
                if is_end:
                    # A leader that does not know all of its log yet: the rest is waited for.
                    continue
                heard_s = monotonic_s()
                found.append(record_of(message))
            if found and found[-1].offset == last - 1:
                return found
            if monotonic_s() - heard_s > _SILENCE_S:
                raise Retry(f"{topic}/{partition} from {first} on: nothing came for {_SILENCE_S:.0f} s")

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self._servers,
                    "group.id": "gpumeter-part-reader",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": "read_uncommitted",
                    "auto.offset.reset": "error",
                    "queued.max.messages.kbytes": 32_768,
                    "log_level": 2,
                }
            )
        return self._consumer


def record_of(message: Message) -> LogRecord:
    """A message as the meter takes it."""
    given: Any = message.headers() or []
    headers = [(name, _bytes(value)) for name, value in given]
    return LogRecord(int(message.offset() or 0), message.timestamp()[1] * 1000, headers, _bytes(message.value()))


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"" if value is None else str(value).encode()
