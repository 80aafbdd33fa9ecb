"""Reads parts of a partition's log again, for repair passes: exactly the records between two offsets, slice by slice.

Blocking, so called from a thread; a consumer outside any group that commits nothing. A call takes about a second at
most while the broker answers, and gives a bounded number of messages. Law: every record of the parts, in order, and no
other, however it is sliced (tests/integration/test_part_reader.py, test_revisions_on_kafka.py).
"""

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .clock import monotonic_s
from .core.contents import LogRecord
from .errors import Retry
from .lane import LogGoneError
from .log_records import records_of

SLICE_MESSAGES = 500
_ANSWER_S, _SILENCE_S = 30.0, 30.0
_WAIT_S = 0.2
_GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)

_Place = tuple[str, int, int]
"""Topic, partition, offset."""


class PartReader:
    """A reader of one cluster's log; its connection is made at the first part and kept, and so is its place."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._consumer: Consumer | None = None
        self._at: _Place | None = None
        self._silent_s = 0.0

    def read(self, partition: int, topic: str, first: int, last: int) -> tuple[list[LogRecord], int]:
        """The next records of [first, last), and the offset up to which the log has no others: `last` once all came.

        LogGoneError where some were deleted, Retry where the broker is away.
        """
        place = (topic, partition, first)
        try:
            if self._at != place:
                self._seek(place)
            messages, to = self._slice(place, last)
        except KafkaException as error:
            self._at = None
            if error.args[0].code() in _GONE:
                raise LogGoneError(
                    f"{topic}/{partition}: records from {first} on are needed, and left the log"
                ) from error
            raise Retry(f"parts of partition {partition} cannot be read: {error.args[0].str()}") from error
        # At the end of a part it may have been given a message behind it.
        self._at = (topic, partition, to) if to < last else None
        return records_of(messages, self._servers), to

    def _seek(self, place: _Place) -> None:
        topic, partition, first = place
        consumer = self._connected()
        start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ANSWER_S)
        if start > first:
            raise LogGoneError(f"{topic}/{partition} begins at {start}, records from {first} on are needed")
        consumer.assign([TopicPartition(topic, partition, first)])
        self._silent_s = 0.0

    def _slice(self, place: _Place, last: int) -> tuple[list[Message], int]:
        topic, partition, to = place
        found: list[Message] = []
        began_s = monotonic_s()
        for message in self._connected().consume(min(SLICE_MESSAGES, last - to), _WAIT_S):
            error, offset = message.error(), int(message.offset() or 0)
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if offset >= last:
                return found, last
            # An end below `last` is a leader that does not know all of its log yet: the rest is waited for.
            if error is None:
                found.append(message)
                to = offset + 1
        self._silent_s = 0.0 if found else self._silent_s + monotonic_s() - began_s
        if self._silent_s > _SILENCE_S:
            raise Retry(f"{topic}/{partition} from {to} on: nothing came for {_SILENCE_S:.0f} s")
        return found, to

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
