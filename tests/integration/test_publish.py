"""A broker that is away longer than a message is tried: what was not acknowledged is sent again, and all goes on."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from infra.broker.kafka import LocalKafka
from schemas.names import DEAD_LETTERS
from stream_jobs.errors import Retry
from stream_jobs.publish import Outgoing, Publisher
from stream_jobs.sink import PROGRESS, Sink, SinkSettings
from stream_jobs.usage_rows import UsageMessage
from tests.integration.harness import read_all, wait_until
from tests.ledger_rows import message, row

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]
TRIED_S = 2


def _publisher(kafka: LocalKafka) -> Publisher:
    """A publisher that gives a message up after two seconds, and that has sent one."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(DEAD_LETTERS, 1, 1)])[DEAD_LETTERS].result(20)
    publisher = Publisher(kafka.bootstrap, "test", delivery_timeout_s=TRIED_S)
    publisher.send(_letter(b"before"))
    publisher.flush()
    return publisher


def _letter(body: bytes) -> Outgoing:
    return Outgoing(DEAD_LETTERS, 0, b"", [], body)


@contextmanager
def _away(kafka: LocalKafka) -> Iterator[None]:
    """The broker answers nobody."""
    pid = kafka.pid(0)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class _Outside:
    """Reader and ledger of a sink: one good message and one that can never be a row."""

    place, trouble = "memory", ""

    def __init__(self) -> None:
        self._left = [message([row(0)], 0), message([row(1)], 1)._replace(payload=b"no rows")]
        self.inserted: list[str] = []
        self.committed: dict[int, int] = {}

    def ends(self) -> dict[int, int]:
        return {}

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        found, self._left = self._left, []
        time.sleep(0 if found else wait_s)
        return found

    def insert_arrow(self, table: str, rows: pa.Table, token: str) -> None:
        self.inserted.append(table)

    def commit(self, next_offsets: Mapping[int, int], report: Callable[[str], None]) -> None:
        self.committed |= next_offsets


def test_sink_goes_on_after_a_broker_was_away_beyond_the_delivery_timeout(own_kafka: LocalKafka) -> None:
    """A dead letter that the broker did not take in time is sent again once it is back, and only then is committed."""
    outside, stop = _Outside(), threading.Event()
    sink = Sink(outside, outside, _publisher(own_kafka), SinkSettings(topic_id="t", flush_s=0.1))  # type: ignore[arg-type]
    running = threading.Thread(target=sink.run, args=(stop,))
    with _away(own_kafka):
        running.start()
        wait_until(lambda: sink.status()["retries"] >= 2, 30, lambda: str(sink.status()))
        assert "did not acknowledge" in sink.status()["state"]
        assert (outside.committed, PROGRESS in outside.inserted) == ({}, False)
    try:
        wait_until(lambda: outside.committed == {0: 2}, 30, lambda: str(sink.status()))
    finally:
        stop.set()
        running.join()
    letters = [letter.value() for letter in read_all(own_kafka.bootstrap, [DEAD_LETTERS])]
    assert letters[0] == b"before"
    assert len(letters) >= 2
    assert sink.status()["dead_letters"] == 1


def test_flush_tells_what_was_not_acknowledged_and_that_once(own_kafka: LocalKafka) -> None:
    """A flush is a Retry where something sent before it was given up, with the reason; the next one knows its own."""
    publisher = _publisher(own_kafka)
    acknowledged: list[int] = []
    with _away(own_kafka):
        publisher.send(_letter(b"lost"), acknowledged.append)
        with pytest.raises(Retry, match=r"did not acknowledge 1 messages \(dead-letters: .*the next try"):
            publisher.flush()
    assert acknowledged == []
    publisher.send(_letter(b"after"), acknowledged.append)
    publisher.flush()
    assert len(acknowledged) == 1
    bodies = [letter.value() for letter in read_all(own_kafka.bootstrap, [DEAD_LETTERS])]
    assert (bodies[0], bodies[-1]) == (b"before", b"after")
