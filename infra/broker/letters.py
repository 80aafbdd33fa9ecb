"""Reads dead-letters from Kafka: all that the topic holds, or one.

Shell around a consumer; knows a letter's form and nothing of what is done with it. Tested on a real broker in
tests/integration/test_dead_letters.py.
"""

from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.deadletters import DeadLetterRecord, decode_dead_letter
from schemas.names import DEAD_LETTERS

from .errors import BrokerError

_ANSWER_S = 10.0


class StoredLetter(NamedTuple):
    """A letter where it lies; `letter` None and the `fault` where a message of the topic is none."""

    partition: int
    offset: int
    append_us: int
    letter: DeadLetterRecord | None
    fault: str = ""


def read_letters(bootstrap: str, since_us: int = 0, only: tuple[int, int] | None = None) -> Iterator[StoredLetter]:
    """Letters appended since a time, or the `only` one at (partition, offset), as they lie in the topic.

    BrokerError where the broker or the topic is not there.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "gpumeter-dead-letters-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        yield from _read(consumer, bootstrap, since_us, only)
    except KafkaException as error:
        raise BrokerError(f"broker {bootstrap}: {DEAD_LETTERS} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _read(consumer: Consumer, bootstrap: str, since_us: int, only: tuple[int, int] | None) -> Iterator[StoredLetter]:
    topics = consumer.list_topics(timeout=_ANSWER_S).topics
    if DEAD_LETTERS not in topics:
        raise BrokerError(f"topic {DEAD_LETTERS} is not on {bootstrap}; `gpumeter topics apply` makes it")
    numbers = sorted(topics[DEAD_LETTERS].partitions) if only is None else [only[0]]
    ends = {}
    for number in numbers:
        low, high = consumer.get_watermark_offsets(TopicPartition(DEAD_LETTERS, number), timeout=_ANSWER_S)
        begin = low if only is None else only[1]
        if low <= begin < high:
            ends[number] = (begin, high if only is None else begin + 1)
    consumer.assign([TopicPartition(DEAD_LETTERS, number, begin) for number, (begin, _) in ends.items()])
    while ends:
        message = consumer.poll(_ANSWER_S)
        if message is None:
            raise BrokerError(f"broker {bootstrap} does not answer: {DEAD_LETTERS} has more to read")
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            ends.pop(int(message.partition() or 0), None)
            continue
        stored = _stored(message)
        if stored.partition in ends and stored.offset < ends[stored.partition][1] and stored.append_us >= since_us:
            yield stored
        if stored.partition in ends and stored.offset + 1 >= ends[stored.partition][1]:
            del ends[stored.partition]


def _stored(message: Message) -> StoredLetter:
    place = (int(message.partition() or 0), int(message.offset() or 0), message.timestamp()[1] * 1000)
    try:
        return StoredLetter(*place, decode_dead_letter(message.value() or b""))
    except ValueError as error:
        return StoredLetter(*place, None, f"not a dead letter: {error}")
