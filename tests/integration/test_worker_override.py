"""The watcher goes away while nodes go on, on a real Kafka: windows close, and rows are those of the log."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.clock import ClockRecord, decode_clock, encode_clock
from schemas.headers import CLOCK, Headers, decode_headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from stream_jobs.core.settings import MeterSettings
from tests.integration import fleet, harness

pytestmark = pytest.mark.needs_broker
KEY = "a key"
SETTINGS = MeterSettings(window_us=15_000_000, lateness_us=0, clock_key=KEY.encode())
S = 1_000_000


@pytest.fixture
def topics(own_kafka: LocalKafka) -> str:
    """Bootstrap servers of a broker with all topics, empty."""
    apply(own_kafka.bootstrap, partitions=1)
    return own_kafka.bootstrap


def _now_us() -> int:
    return time.time_ns() // 1000


def _clock(now_us: int) -> Iterator[fleet.Sent]:
    headers = encode_headers(Headers(record=CLOCK, cluster=fleet.CLUSTER))
    for topic in INPUT_TOPICS:
        payload = encode_clock(ClockRecord(cluster=fleet.CLUSTER, now_us=now_us), KEY.encode(), topic, 0)
        yield fleet.Sent(topic, 0, b"k", headers, payload)


class Feeder(threading.Thread):
    """Two nodes that tell a reading each second and a snapshot each ten, and a watcher that may be away."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._servers = bootstrap
        self.watcher, self.ends = threading.Event(), threading.Event()
        self.watcher.set()

    def run(self) -> None:
        """Goes on until `ends`."""
        nodes = [fleet.Node(number, 1) for number in range(2)]
        sent = [message for node in nodes for message in node.facts(_now_us() - 60 * S)]
        for turn in range(10_000):
            now_us = _now_us()
            if self.watcher.is_set():
                sent += _clock(now_us)
            for node in nodes:
                sent += [node.snapshot(now_us)] if turn % 10 == 0 else []
                sent.append(node.reading(now_us))
            fleet.publish(self._servers, sent)
            sent = []
            if self.ends.wait(1.0):
                return


def _overrides(bootstrap: str) -> list[tuple[str, ClockRecord]]:
    found = []
    for message in harness.read_all(bootstrap, list(INPUT_TOPICS)):
        topic = message.topic() or ""
        if decode_headers(message.headers() or []).record == CLOCK:
            clock = decode_clock(message.value() or b"", KEY.encode(), topic, 0)
            found += [(topic, clock)] if clock.override else []
    return found


@pytest.mark.slow
def test_worker_stands_in_for_an_absent_watcher(topics: str, tmp_path: Path) -> None:
    """After 4 s without a clock the worker writes it, signed, to all topics; windows close; the watcher goes on."""
    worker = harness.WorkerProcess(
        topics,
        tmp_path / "worker.log",
        GPUMETER_SIMULATED_TIME="false",
        GPUMETER_CLOCK_KEY=KEY,
        GPUMETER_WORKER_WINDOW_S="15",
        GPUMETER_WORKER_LATENESS_S="0",
        GPUMETER_WORKER_WATCHER_AWAY_S="4",
    )
    feeder = Feeder(topics)
    feeder.start()
    worker.wait_for("partition opened")
    time.sleep(8)
    assert "watcher is away" not in worker.log.read_text()
    feeder.watcher.clear()
    left_us = _now_us()
    worker.wait_for("watcher is away")

    def closed() -> bool:
        return any(key[4] > left_us for key in harness.published_rows(topics)[0])

    harness.wait_until(closed, 60, worker.tail)
    feeder.watcher.set()
    worker.wait_for("watcher is back")
    before = len(_overrides(topics))
    time.sleep(8)
    feeder.ends.set()
    feeder.join()
    overrides = _overrides(topics)
    assert len(overrides) == before
    assert {topic for topic, _ in overrides} == set(INPUT_TOPICS)
    assert all(clock.now_us < _now_us() for _, clock in overrides)
    expected = harness.expected_rows(topics, SETTINGS)
    harness.wait_until(lambda: harness.published_rows(topics)[0].keys() >= expected.keys(), 20, worker.tail)
    harness.assert_equal_rows(harness.published_rows(topics)[0], expected)
    assert worker.terminate() == 0, worker.tail()
    assert any(topic == GPU_SAMPLES for topic, _ in overrides)
