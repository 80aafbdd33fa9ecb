"""A worker whose outside is slow or away, on a real Kafka: it never commits past what is published, and goes on."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.names import GPU_SAMPLES, GPU_USAGE
from stream_jobs.progress import decode_pointer
from tests.integration import fleet, harness

pytestmark = pytest.mark.needs_broker


def _accept(bootstrap: str, max_bytes: int) -> None:
    """With some bytes only no message of gpu-usage is taken."""
    entry = ConfigEntry("max.message.bytes", str(max_bytes), incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, GPU_USAGE, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)


def _reached(bootstrap: str) -> dict[str, int]:
    """How far the committed progress had read."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "gpumeter", "enable.auto.commit": False})
    (found,) = consumer.committed([TopicPartition(GPU_SAMPLES, 0)], 20)
    consumer.close()
    return decode_pointer(found.metadata).reached if found.metadata else {}


def _assert_complete(bootstrap: str, worker: harness.WorkerProcess) -> None:
    expected = harness.expected_rows(bootstrap)
    harness.wait_until(lambda: harness.published_rows(bootstrap)[0].keys() >= expected.keys(), 60, worker.tail)
    harness.assert_equal_rows(harness.published_rows(bootstrap)[0], expected)


@pytest.mark.slow
def test_rows_that_are_not_acknowledged_hold_progress(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """While gpu-usage takes nothing the worker ends with 3 again and again and commits nothing; then rows are exact."""
    bootstrap = own_kafka.bootstrap
    apply(bootstrap, partitions=1)
    sent = list(fleet.messages(3, 10, 1))
    half = len(sent) // 2
    fleet.publish(bootstrap, sent[:half])
    worker = harness.WorkerProcess(bootstrap, tmp_path / "first.log")
    worker.wait_for("progress committed", 60)
    time.sleep(2)
    _accept(bootstrap, 10)
    before = _reached(bootstrap)
    fleet.publish(bootstrap, sent[half:])
    assert worker.process.wait(60) == 3, worker.tail()
    again = harness.WorkerProcess(bootstrap, tmp_path / "again.log")
    assert again.process.wait(60) == 3, again.tail()
    assert "gpu-usage" in again.log.read_text()
    assert _reached(bootstrap) == before
    _accept(bootstrap, 1_000_000)
    again = harness.WorkerProcess(bootstrap, tmp_path / "last.log")
    _assert_complete(bootstrap, again)
    harness.wait_until(lambda: sum(_reached(bootstrap).values()) > sum(before.values()), 20, again.tail)
    assert again.terminate() == 0, again.tail()


@pytest.mark.slow
def test_broker_away_for_more_than_a_minute(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """A broker that is away for 70 s: the worker waits, or ends with 3 and is started again; the rows are exact."""
    bootstrap = own_kafka.bootstrap
    apply(bootstrap, partitions=1)
    sent = list(fleet.messages(3, 10, 1))
    half = len(sent) // 2
    fleet.publish(bootstrap, sent[:half])
    worker = harness.WorkerProcess(bootstrap, tmp_path / "0.log")
    worker.wait_for("progress committed")
    own_kafka.kill(0)
    lives = [worker]

    def tend(seconds: float) -> None:
        """Starts the worker again where it ended, as Kubernetes would."""
        for _ in range(round(seconds)):
            time.sleep(1.0)
            if lives[-1].process.poll() is not None:
                lives.append(harness.WorkerProcess(bootstrap, tmp_path / f"{len(lives)}.log"))

    tend(70)
    own_kafka.restart(0)
    fleet.publish(bootstrap, sent[half:])
    tend(20)
    _assert_complete(bootstrap, lives[-1])
    assert lives[-1].terminate() in (0, 3), lives[-1].tail()
    assert {life.process.returncode for life in lives[:-1]} <= {3}
