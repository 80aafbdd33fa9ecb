"""Reads again what a lane has to, straight from Kafka: Faust costs 200 us a message, and a take-over has to be quick.

From where the lane's progress is to where the partition was; what comes after that comes through Faust. Blocking, so
called from a thread. Law: every record between the two, in each topic's order, and no other
(tests/integration/test_eyes_worker.py, test_worker_rebalance.py; tests/chaos).
"""

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .clock import monotonic_s
from .errors import Retry
from .lane import Received
from .log_records import records_of

TAKE_MESSAGES = 2_000
_WAIT_S = 0.2
_SILENCE_S = 30.0


class Rereader:
    """A consumer outside any group over one partition of some topics, each between two offsets."""

    def __init__(
        self, bootstrap_servers: str, partition: int, generation: int, first: Mapping[str, int], last: Mapping[str, int]
    ) -> None:
        self._partition, self._generation, self._servers = partition, generation, bootstrap_servers
        self._last = {topic: offset for topic, offset in last.items() if offset > first[topic]}
        self._heard_s = monotonic_s()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "gpumeter-rereader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_uncommitted",
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": 16_384,
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, first[topic]) for topic in self._last])

    @property
    def is_done(self) -> bool:
        """Whether all was taken."""
        return not self._last

    def take(self) -> list[Received]:
        """The next messages, some thousands at most; Retry where the broker is away."""
        found: list[Message] = []
        for message in self._consumer.consume(TAKE_MESSAGES, _WAIT_S):
            error, topic = message.error(), message.topic() or ""
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise Retry(f"partition {self._partition} cannot be read again: {error.str()}")
            offset, last = int(message.offset() or 0), self._last.get(topic)
            if last is not None and error is None and offset < last:
                self._heard_s = monotonic_s()
                found.append(message)
            # An end of the log below the last offset is a leader that does not know all of it yet: the rest will come.
            if last is not None and offset >= (last if error is not None else last - 1):
                self._end(topic)
        if self._last and monotonic_s() - self._heard_s > _SILENCE_S:
            raise Retry(f"partition {self._partition}: nothing came for {_SILENCE_S:.0f} s while it was read again")
        records = records_of(found, self._servers)
        return [
            Received(message.topic() or "", self._partition, self._generation, record)
            for message, record in zip(found, records, strict=True)
        ]

    def close(self) -> None:
        """Ends it."""
        self._consumer.close()

    def _end(self, topic: str) -> None:
        del self._last[topic]
        try:
            self._consumer.incremental_unassign([TopicPartition(topic, self._partition)])
        except KafkaException as error:
            raise Retry(f"partition {self._partition} cannot be read again: {error.args[0].str()}") from error
