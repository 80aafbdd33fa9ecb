"""Workers that come, go, freeze and fall behind: partitions change hands without a row lost, doubled or changed."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.names import GPU_SAMPLES
from tests.integration import fleet, harness

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]
PARTITIONS = 4


@pytest.fixture
def topics(own_kafka: LocalKafka) -> str:
    """Bootstrap servers of a broker with all topics, empty."""
    apply(own_kafka.bootstrap, partitions=PARTITIONS)
    return own_kafka.bootstrap


def _feed(bootstrap: str, minutes: int, per_second: int) -> threading.Thread:
    def paced() -> Iterator[fleet.Sent]:
        for number, message in enumerate(fleet.messages(8, minutes, PARTITIONS)):
            if number % 100 == 99:
                time.sleep(100 / per_second)
            yield message

    thread = threading.Thread(target=lambda: fleet.publish(bootstrap, paced()), daemon=True)
    thread.start()
    return thread


def _assert_complete(bootstrap: str, worker: harness.WorkerProcess) -> None:
    expected = harness.expected_rows(bootstrap)

    def there() -> bool:
        return harness.published_rows(bootstrap)[0].keys() >= expected.keys()

    harness.wait_until(there, 40, worker.tail)
    harness.assert_equal_rows(harness.published_rows(bootstrap)[0], expected)


def test_worker_joins_and_another_leaves(topics: str, tmp_path: Path) -> None:
    """A second worker takes over half the partitions, the first ends by SIGTERM: the rows are those of one worker."""
    feeder = _feed(topics, 20, per_second=400)
    first = harness.WorkerProcess(topics, tmp_path / "first.log")
    first.wait_for("partition opened")
    time.sleep(2)
    second = harness.WorkerProcess(topics, tmp_path / "second.log")
    second.wait_for("partition opened")
    time.sleep(2)
    assert first.terminate() == 0, first.tail()
    feeder.join()
    _assert_complete(topics, second)
    assert second.terminate() == 0, second.tail()


def test_frozen_worker_changes_nothing(topics: str, tmp_path: Path) -> None:
    """A worker frozen beyond its session, replaced and thawed again cannot move the group back: rows stay equal."""
    feeder = _feed(topics, 25, per_second=400)
    frozen = harness.WorkerProcess(topics, tmp_path / "frozen.log")
    frozen.wait_for("partition opened")
    second = harness.WorkerProcess(topics, tmp_path / "second.log")
    second.wait_for("partition opened")
    time.sleep(1)
    frozen.process.send_signal(signal.SIGSTOP)
    time.sleep(9)
    frozen.process.send_signal(signal.SIGCONT)
    feeder.join()
    _assert_complete(topics, second)
    assert second.terminate() == 0, second.tail()
    assert frozen.process.poll() is None, "the thawed worker should have joined again\n" + frozen.tail()
    frozen.kill()


def test_broker_killed_in_mid_run(own_kafka: LocalKafka, topics: str, tmp_path: Path) -> None:
    """kill -9 of the broker and its restart: the worker goes on, or ends with 3 and starts again; rows stay equal."""
    feeder = _feed(topics, 15, per_second=600)
    worker = harness.WorkerProcess(topics, tmp_path / "worker.log")
    worker.wait_for("partition opened")
    time.sleep(1)
    own_kafka.kill(0)
    time.sleep(2)
    own_kafka.restart(0)
    feeder.join()
    if worker.process.poll() is not None:
        assert worker.process.returncode == 3, worker.tail()
        worker = harness.WorkerProcess(topics, tmp_path / "again.log")
    _assert_complete(topics, worker)
    assert worker.terminate() in (0, 3), worker.tail()


def test_truncated_log_stops_with_reason(topics: str, tmp_path: Path) -> None:
    """Records deleted before they were metered stop the worker with code 4 and the word log_truncated."""
    fleet.publish(topics, fleet.messages(4, 6, PARTITIONS))
    worker = harness.WorkerProcess(topics, tmp_path / "worker.log")
    _assert_complete(topics, worker)
    time.sleep(1.5)
    assert worker.terminate() == 0, worker.tail()
    later = [m for m in fleet.messages(4, 12, PARTITIONS) if m.topic == GPU_SAMPLES]
    fleet.publish(topics, later)
    admin = AdminClient({"bootstrap.servers": topics})
    ends = [TopicPartition(GPU_SAMPLES, p, OFFSET_END) for p in range(PARTITIONS)]
    for future in admin.delete_records(ends).values():
        future.result(20)
    fleet.publish(topics, later)
    again = harness.WorkerProcess(topics, tmp_path / "again.log")
    assert again.process.wait(30) == 4, again.tail()
    assert "log_truncated" in again.log.read_text()
