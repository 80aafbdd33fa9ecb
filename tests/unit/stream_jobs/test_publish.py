"""The publisher over a producer that does what it is told."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from stream_jobs import publish as subject
from stream_jobs.errors import Retry, Stop
from stream_jobs.publish import Outgoing, Publisher

MESSAGE = Outgoing("t", 0, b"", [], b"x")


class _Producer:
    """Takes messages until it is told an error; a flush acknowledges what it has, but for what waits."""

    made: list["_Producer"] = []  # noqa: RUF012 one list for all that a publisher makes

    def __init__(self, settings: dict[str, Any]) -> None:
        self.error: Exception | None = None
        self.waiting = 0
        self.told: list[Callable[[KafkaError | None, Any], None]] = []
        self.made.append(self)

    def __len__(self) -> int:
        return len(self.told)

    def produce(self, topic: str, *, on_delivery: Callable[[KafkaError | None, Any], None], **_: Any) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(on_delivery)

    def poll(self, timeout_s: float) -> None:
        """Nothing happens."""

    def flush(self, timeout_s: float) -> int:
        return self.waiting

    def purge(self) -> None:
        """Forgets all that waits, which is told later."""


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[_Producer]:
    """The producers that were made, the newest last."""
    monkeypatch.setattr(_Producer, "made", [])
    monkeypatch.setattr(subject, "Producer", _Producer)
    return _Producer.made


def test_producer_that_can_send_no_more_is_replaced(producers: list[_Producer]) -> None:
    """After an error that librdkafka calls fatal a send is a Retry, and the next try has a producer of its own."""
    publisher = Publisher("b", "c")
    producers[0].error = KafkaException(KafkaError(KafkaError._FATAL, "out of sequence"))
    with pytest.raises(Retry, match="out of sequence"):
        publisher.send(MESSAGE)
    publisher.send(MESSAGE)
    publisher.flush()
    assert (len(producers), len(producers[1])) == (2, 1)


def test_message_that_can_never_be_sent_stops(producers: list[_Producer]) -> None:
    """A message too large is no reason to try again, with this producer or another."""
    publisher = Publisher("b", "c")
    producers[0].error = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    with pytest.raises(Stop, match="message of 1 bytes for t cannot be sent"):
        publisher.send(MESSAGE)
    assert len(producers) == 1


def test_queue_that_stays_full_is_a_retry_with_an_empty_one(producers: list[_Producer]) -> None:
    """Where the producer takes nothing for as long as a flush may take, what waits in it is sent by the next try."""
    publisher = Publisher("b", "c", delivery_timeout_s=1)
    producers[0].error = BufferError()
    with pytest.raises(Retry, match="takes nothing more"):
        publisher.send(MESSAGE)
    publisher.send(MESSAGE)
    assert len(producers[1]) == 1


def test_late_word_of_a_try_that_was_given_up_counts_no_more(producers: list[_Producer]) -> None:
    """What a flush did not wait for to its end is given up; that it failed, told later, is no failure of the next."""
    publisher = Publisher("b", "c")
    publisher.send(MESSAGE)
    producers[0].waiting = 1
    with pytest.raises(Retry, match=r"did not acknowledge 1 messages \(no answer\)"):
        publisher.flush()
    publisher.send(MESSAGE)
    producers[0].told[0](KafkaError(KafkaError._PURGE_QUEUE), None)
    publisher.flush()
    producers[1].told[0](KafkaError(KafkaError._MSG_TIMED_OUT), None)
    with pytest.raises(Retry, match="timed out"):
        publisher.flush()
