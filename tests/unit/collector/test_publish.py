"""The producer while no broker answers."""

import time

import pytest

from collector.errors import Retry
from collector.publish import AGAIN, NEVER, Publisher
from schemas.headers import Headers

HEADERS = Headers(record="reading", cluster="c", node="n", seq=1)


def _publisher(queue_bytes: int = 1 << 20) -> Publisher:
    """A producer whose broker is not there."""
    return Publisher("c", "127.0.0.1:1", queue_bytes=queue_bytes)


def test_absent_broker_never_delays_a_message() -> None:
    """Queueing a hundred messages without a broker takes no time to speak of."""
    publisher = _publisher()
    begin = time.monotonic()
    assert all(publisher.produce("gpu-samples", "n", HEADERS, b"x" * 1000) for _ in range(100))
    publisher.poll()
    assert time.monotonic() - begin < 1
    assert publisher.partition_count("gpu-samples") is None


def test_full_queue_drops_and_counts() -> None:
    """What does not fit into the queue is refused and counted; what is queued stays."""
    publisher = _publisher()
    taken = [publisher.produce("gpu-samples", "n", HEADERS, b"x" * 100_000) for _ in range(20)]
    assert taken == [True] * 10 + [False] * 10
    assert (publisher.dropped, publisher.acknowledged, publisher.failed) == (10, 0, 0)


def test_message_too_large_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A message that no broker would take costs itself alone, and is told."""
    publisher = _publisher(4 << 20)
    assert not publisher.produce_to("gpu-samples", 0, b"c/n", HEADERS, b"x" * (2 << 20))
    assert publisher.produce_to("gpu-samples", 0, b"c/n", HEADERS, b"x")
    assert publisher.dropped == 1
    assert "2097152 bytes" in caplog.text


def test_flush_without_broker_is_retry_in_time() -> None:
    """Waiting for acknowledgements ends at its timeout with the number that is left."""
    publisher = _publisher()
    publisher.produce("gpu-samples", "n", HEADERS, b"x")
    begin = time.monotonic()
    with pytest.raises(Retry, match="1 messages not acknowledged"):
        publisher.flush(0.5)
    assert time.monotonic() - begin < 5


def test_offered_message_is_told_what_became_of_it() -> None:
    """One that finds no room may be offered again, one that is too large never is; neither counts as dropped."""
    publisher = _publisher()
    told: list[str] = []
    for _ in range(20):
        publisher.offer("gpu-samples", HEADERS, b"x" * 100_000, told.append)
    assert told == [AGAIN] * 10
    publisher = _publisher(4 << 20)
    publisher._counts["gpu-samples"] = 1
    publisher.offer("gpu-samples", HEADERS, b"x" * (2 << 20), told.append)
    assert told[10:] == [NEVER]
    assert publisher.dropped == 0
