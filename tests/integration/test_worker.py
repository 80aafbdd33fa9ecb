"""The worker on a real Apache Kafka: exact through kill -9, never stopped by garbage, clean on SIGTERM."""

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.deadletters import decode_dead_letter
from schemas.headers import Headers, encode_headers
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from tests.integration import fleet, harness

pytestmark = pytest.mark.needs_broker
PARTITIONS = 2


@pytest.fixture
def topics(own_kafka: LocalKafka) -> str:
    """Bootstrap servers of a broker with all topics, empty."""
    apply(own_kafka.bootstrap, partitions=PARTITIONS)
    return own_kafka.bootstrap


def _paced(sent: Iterable[fleet.Sent], per_second: int) -> Iterator[fleet.Sent]:
    for number, message in enumerate(sent):
        if number % 100 == 99:
            time.sleep(100 / per_second)
        yield message


def _finish(bootstrap: str, workers: list[harness.WorkerProcess], timeout_s: float = 40.0) -> tuple[harness.Rows, int]:
    """What was published once every expected row is there."""
    expected = harness.expected_rows(bootstrap)
    deadline = time.monotonic() + timeout_s
    while True:
        published, copies = harness.published_rows(bootstrap)
        if published.keys() >= expected.keys():
            break
        assert time.monotonic() < deadline, f"{len(published)} of {len(expected)} rows; {workers[-1].tail()}"
        time.sleep(0.5)
    harness.assert_equal_rows(published, expected)
    return published, copies


def test_worker_killed_gives_equal_rows(topics: str, tmp_path: Path) -> None:
    """kill -9 three times in mid-run: every row of an undisturbed run is there, and no two copies of a row differ."""
    sent = list(fleet.messages(6, 20, PARTITIONS))
    part = len(sent) // 4
    lives = []
    for life in range(3):
        slice_ = sent[life * part : (life + 1) * part]
        feeder = threading.Thread(target=lambda s=slice_: fleet.publish(topics, _paced(s, per_second=400)), daemon=True)
        feeder.start()
        lives.append(harness.WorkerProcess(topics, tmp_path / f"{life}.log", GPUMETER_WORKER_INSTANCE="slot"))
        lives[-1].wait_for("progress committed")
        lives[-1].kill()
        feeder.join()
    fleet.publish(topics, sent[3 * part :])
    lives.append(harness.WorkerProcess(topics, tmp_path / "last.log", GPUMETER_WORKER_INSTANCE="slot"))
    rows, copies = _finish(topics, lives)
    assert lives[-1].terminate() == 0, lives[-1].tail()
    for life in lives[1:]:
        assert '"resumed": true' in life.log.read_text(), "this life did not go on from a progress record"
    assert copies >= len(rows)


def test_garbage_goes_to_dead_letters(topics: str, tmp_path: Path) -> None:
    """Garbage of every kind on every topic becomes a dead letter with its origin, and all other rows are exact."""
    good = encode_headers(Headers(record="reading", cluster=fleet.CLUSTER, node="node-0", boot_id="b", seq=1))
    future = encode_headers(Headers(record="reading", version=99, cluster=fleet.CLUSTER, node="node-0"))
    foreign = encode_headers(Headers(record="snapshot", cluster=fleet.CLUSTER, node="node-0"))
    clock = encode_headers(Headers(record="clock", cluster=fleet.CLUSTER))
    garbage = [
        fleet.Sent(GPU_SAMPLES, 0, b"k", [], b"\x00\xff no headers"),
        fleet.Sent(GPU_SAMPLES, 0, b"k", good, b"not arrow"),
        fleet.Sent(GPU_SAMPLES, 1, b"k", good, b""),
        fleet.Sent(GPU_SAMPLES, 1, b"k", future, b"x"),
        fleet.Sent(POD_EVENTS, 0, b"k", foreign, b"{}"),
        fleet.Sent(POD_MAPPINGS, 1, b"k", foreign, b'{"mapping_seq": "one"}'),
        fleet.Sent(POD_MAPPINGS, 0, b"k", clock, b"[1]"),
        fleet.Sent(POD_MAPPINGS, 0, b"k", [("record", b"\xff\xfe"), ("cluster", b"\xff")], b"x"),
    ]
    sent = list(fleet.messages(3, 6, PARTITIONS))
    middle = len(sent) // 2
    fleet.publish(topics, sent[:middle])
    fleet.publish(topics, garbage)
    fleet.publish(topics, sent[middle:])
    worker = harness.WorkerProcess(topics, tmp_path / "worker.log")
    _finish(topics, [worker])
    letters = [decode_dead_letter(m.value() or b"") for m in harness.read_all(topics, [DEAD_LETTERS])]
    origins = {(letter.topic, letter.partition, letter.payload) for letter in letters}
    assert origins == {(g.topic, g.partition, g.payload) for g in garbage}
    assert all(letter.reason and letter.detail for letter in letters)
    assert worker.terminate() == 0, worker.tail()


def test_worker_goes_on_behind_a_transaction(topics: str, tmp_path: Path) -> None:
    """A producer's transactions leave offsets without a message in the log; the worker reads on behind them."""
    sent = list(fleet.messages(2, 4, PARTITIONS))
    middle = len(sent) // 2
    fleet.publish(topics, sent[:middle])
    stranger = Producer({"bootstrap.servers": topics, "transactional.id": "stranger"})
    stranger.init_transactions(20)
    for _ in range(2):
        stranger.begin_transaction()
        stranger.produce(GPU_SAMPLES, b"x", partition=0)
        stranger.commit_transaction(20)
    fleet.publish(topics, sent[middle:])
    worker = harness.WorkerProcess(topics, tmp_path / "worker.log")
    _finish(topics, [worker])
    assert worker.terminate() == 0, worker.tail()


def test_worker_without_topics_says_so(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """On a broker without the topics the worker ends with code 4 and names the command that makes them."""
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "worker.log")
    assert worker.process.wait(30) == 4
    assert "gpumeter topics apply" in worker.tail()


def test_worker_without_broker_exits_3(tmp_path: Path) -> None:
    """Without a broker the worker ends with code 3 and names the address."""
    worker = harness.WorkerProcess("127.0.0.1:1", tmp_path / "worker.log")
    assert worker.process.wait(30) == 3
    assert "127.0.0.1:1 does not answer" in worker.tail()
