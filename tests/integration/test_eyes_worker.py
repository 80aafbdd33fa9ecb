"""What a worker says of itself on a real Kafka: ready when it is where it was, and not before."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.ports import free_ports
from infra.broker.topics import apply
from infra.status.process import ask
from schemas.names import GPU_SAMPLES
from tests.integration import fleet, harness
from tests.integration.pages import is_ready, reasons_until_ready, total, wait_ready

pytestmark = pytest.mark.needs_broker
PARTITIONS = 2


@pytest.fixture
def topics(own_kafka: LocalKafka) -> str:
    """Bootstrap servers of a broker with all topics, empty."""
    apply(own_kafka.bootstrap, partitions=PARTITIONS)
    return own_kafka.bootstrap


def _worker(bootstrap: str, log: Path, **environment: str) -> tuple[harness.WorkerProcess, int]:
    (port,) = free_ports(1)
    settings = {"GPUMETER_WORKER_METRICS_PORT": str(port), **environment}
    return harness.WorkerProcess(bootstrap, log, **settings), port


def _lag(port: int) -> float | None:
    """Records behind; None while the ends are not known."""
    found = ask(f"127.0.0.1:{port}").numbers.get("gpumeter_worker_lag_records")
    return sum(found.values()) if found else None


@pytest.mark.slow
def test_killed_worker_is_ready_when_it_is_where_it_was(topics: str, tmp_path: Path) -> None:
    """After kill -9 a worker is not ready while it reads again, is once it has, and says how much that was."""
    sent = list(fleet.messages(30, 12, PARTITIONS))
    beyond = fleet.RUN_ON_US // fleet.PERIOD_US * 3 * PARTITIONS
    fleet.publish(topics, sent[:-beyond])
    first, port = _worker(topics, tmp_path / "first.log", GPUMETER_WORKER_INSTANCE="slot")
    wait_ready(port, first.tail)
    harness.wait_until(lambda: _lag(port) == 0, 40, first.tail)
    first.wait_for("progress committed")
    time.sleep(1.5)
    before = ask(f"127.0.0.1:{port}")
    first.kill()
    second, port = _worker(topics, tmp_path / "second.log", GPUMETER_WORKER_INSTANCE="slot")
    reasons = reasons_until_ready(port, second.tail)
    # What it says of the re-read itself may last for a tenth of a second; it must not be ready before.
    assert reasons
    second.wait_for("caught up")
    lines = [json.loads(line) for line in second.log.read_text().splitlines() if "all opened" in line]
    assert lines[0]["reread_records"] > 300
    after = wait_ready(port, second.tail)
    assert total(after, "gpumeter_worker_reread_left_records") == 0
    assert total(after, "gpumeter_worker_reread_records_total") > 300
    for name in ("watermark_timestamp_seconds", "closed_timestamp_seconds", "open_windows", "nodes"):
        full = f"gpumeter_worker_{name}"
        assert after.numbers[full] == before.numbers[full], name
    assert total(after, "gpumeter_worker_conservation_violations_total") == 0
    harness.wait_until(lambda: _lag(port) == 0, 20, second.tail)
    assert second.terminate() == 0, second.tail()


def test_worker_on_empty_topics_is_ready(topics: str, tmp_path: Path) -> None:
    """With nothing to meter a worker opens its partitions all the same and is ready; what it cannot know it omits."""
    worker, port = _worker(topics, tmp_path / "worker.log")
    wait_ready(port, worker.tail)
    harness.wait_until(lambda: "gpumeter_worker_nodes" in ask(f"127.0.0.1:{port}").numbers, 10, worker.tail)
    numbers = ask(f"127.0.0.1:{port}").numbers
    assert numbers["gpumeter_worker_nodes"] == {(str(p),): 0.0 for p in range(PARTITIONS)}
    assert "gpumeter_worker_watermark_timestamp_seconds" not in numbers
    assert worker.terminate() == 0, worker.tail()


def test_garbage_shows_by_reason(topics: str, tmp_path: Path) -> None:
    """Dead letters are counted by topic and reason, and told in one line for each kind."""
    worker, port = _worker(topics, tmp_path / "worker.log")
    wait_ready(port, worker.tail)
    fleet.publish(topics, [fleet.Sent(GPU_SAMPLES, 1, b"k", [], b"garbage")] * 3)
    name = "gpumeter_worker_dead_letters_total"
    wanted = {("1", "headers", GPU_SAMPLES): 3.0}
    harness.wait_until(lambda: ask(f"127.0.0.1:{port}").numbers.get(name) == wanted, 20, worker.tail)
    assert '"event": "dead letters"' in worker.log.read_text()
    assert worker.terminate() == 0, worker.tail()


@pytest.mark.slow
def test_worker_whose_broker_hangs_is_not_ready(own_kafka: LocalKafka, topics: str, tmp_path: Path) -> None:
    """With a broker that is frozen a worker stops being ready, though its loop turns; thawed, it is ready again."""
    worker, port = _worker(topics, tmp_path / "worker.log")
    wait_ready(port, worker.tail)
    (broker,) = own_kafka.pids()
    os.kill(broker, signal.SIGSTOP)
    try:
        harness.wait_until(lambda: not is_ready(port), 40, worker.tail)
        health = ask(f"127.0.0.1:{port}").health
        assert health is not None
        assert health.healthy
        assert health.reasons == ["no assignment: the group rebalances or the broker is away"]
    finally:
        os.kill(broker, signal.SIGCONT)
    wait_ready(port, worker.tail, 60)
    assert worker.terminate() in (0, 3), worker.tail()
