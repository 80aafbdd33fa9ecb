"""A worker with hours of one topic to read and little memory, on a real Kafka: one topic waits, and no row differs."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.headers import NODE_EVENT, Headers, encode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS
from schemas.pods import NodeRecord, encode_record
from tests.integration import fleet, harness

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]
MINUTES, NODES = 80, 16
_WIDE = {"GPUMETER_WORKER_HELD_MIB": "4096", "GPUMETER_WORKER_SKEW_WINDOWS": "1000"}


def _log_with_a_block_of_events() -> Iterator[fleet.Sent]:
    """A fleet's log in which the watcher told everything again after some minutes, which takes long to read."""
    headers = encode_headers(Headers(record=NODE_EVENT, cluster=fleet.CLUSTER, node="node-0"))
    for number, message in enumerate(fleet.messages(NODES, MINUTES, 1)):
        yield message
        # Labels that cannot be compressed: a fetch of 1 MB holds few of these and thousands of readings.
        for _ in range(12_000 if number == 500 else 0):
            labels = {f"label-{i}": secrets.token_hex(60) for i in range(10)}
            record = encode_record(NodeRecord(name="node-0", seen_us=1, labels=labels))
            yield fleet.Sent(POD_EVENTS, 0, b"k", headers, record)


@pytest.fixture
def filled(own_kafka: LocalKafka) -> str:
    """Bootstrap servers of a broker whose topics are filled before any worker starts."""
    apply(own_kafka.bootstrap, partitions=1)
    fleet.publish(own_kafka.bootstrap, _log_with_a_block_of_events())
    return own_kafka.bootstrap


def _peak(bootstrap: str, log: Path, **environment: str) -> int:
    """Most readings that a worker held while it read everything; its rows must be exact."""
    settings = {
        "GPUMETER_WORKER_GROUP": log.stem,
        "GPUMETER_WORKER_STATUS_S": "0.1",
        "GPUMETER_WORKER_BUFFER_MESSAGES": "500",
    } | environment
    worker = harness.WorkerProcess(bootstrap, log, **settings)
    expected = harness.expected_rows(bootstrap)
    wanted = max(key[4] for key in expected)
    harness.wait_until(lambda: _closed_to(log) > wanted, 60, worker.tail)
    assert worker.terminate() == 0, worker.tail()
    harness.assert_equal_rows(harness.published_rows(bootstrap)[0], expected)
    return max(numbers["buffered_readings"] for numbers in _statuses(log))


def _statuses(log: Path) -> list[dict[str, int]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"event": "status"' in line]
    return [numbers for line in lines for numbers in line["partitions"].values()]


def _closed_to(log: Path) -> int:
    return max((numbers.get("closed_to_us", 0) for numbers in _statuses(log)), default=0)


def test_little_memory_pauses_gpu_samples(filled: str, tmp_path: Path) -> None:
    """With 1 MiB for readings gpu-samples waits for pod-events: less is held, and the rows are equal."""
    free = _peak(filled, tmp_path / "free.log", **_WIDE)
    bounded = _peak(filled, tmp_path / "bounded.log", **_WIDE | {"GPUMETER_WORKER_HELD_MIB": "1"})
    lines = (tmp_path / "bounded.log").read_text().splitlines()
    paused = [json.loads(line)["paused"] for line in lines if '"event": "topics ' in line]
    assert any(GPU_SAMPLES in topics for topics in paused)
    assert [] in paused, "it never went on"
    assert bounded < free * 2 / 3, (bounded, free)


def test_topics_stay_within_some_windows(filled: str, tmp_path: Path) -> None:
    """With a distance of 4 windows no topic runs further ahead than that and one step, and the rows are equal."""
    near = _peak(
        filled, tmp_path / "near.log", **_WIDE | {"GPUMETER_WORKER_SKEW_WINDOWS": "4", "GPUMETER_WORKER_HELD_MIB": "2"}
    )
    assert '"event": "topics wait"' in (tmp_path / "near.log").read_text()
    assert near < NODES * 12 * MINUTES / 2, near
