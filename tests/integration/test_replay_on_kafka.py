"""One log through worker and sink in four ways, on real Kafka and the real engine: one checksum."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from infra.audit.checksum import Checksum, checksum
from infra.audit.laws import laws
from infra.audit.scope import Scope
from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.names import ALL_TOPICS, GPU_USAGE
from stream_jobs.ledger import open_ledger
from tests.integration import fleet, harness
from tests.integration.harness import wait_until
from tests.integration.sinks import SinkProcess

pytestmark = pytest.mark.needs_broker
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real one-broker Apache Kafka with all topics, empty."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as cluster:
        apply(cluster.bootstrap, partitions=PARTITIONS)
        yield cluster.bootstrap


def _renew(broker: str, topics: Sequence[str]) -> None:
    """The topics made anew, empty."""
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.delete_topics(list(topics), operation_timeout=20).values():
        future.result(20)
    wait_until(lambda: not set(topics) & admin.list_topics(timeout=10).topics.keys(), 20, str)
    apply(broker, partitions=PARTITIONS)


def _meter(broker: str, group: str, ledger: Path, copies: int) -> Checksum:
    """Meters the log as a new group until gpu-usage has so many rows, takes all into a ledger, gives its checksum."""
    worker = harness.WorkerProcess(broker, ledger.parent / f"{group}.log", GPUMETER_WORKER_GROUP=group)
    wait_until(lambda: harness.published_rows(broker)[1] >= copies, 60, worker.tail)
    assert worker.terminate() == 0, worker.tail()
    ends: dict[str, int] = {"0": 0, "1": 0}
    for message in harness.read_all(broker, [GPU_USAGE]):
        ends[str(message.partition())] = message.offset() + 1
    sink = SinkProcess(broker, ledger)
    sink.wait_for_offsets(ends)
    assert sink.status()["rows"] == copies
    assert sink.end() == 0, sink.text()
    return _checksum(ledger)


def _checksum(directory: Path) -> Checksum:
    opened = open_ledger(directory=directory, read_only=True)
    try:
        assert laws(opened, Scope()).broken == []
        return checksum(opened, Scope())
    finally:
        opened.close()


@pytest.mark.slow
def test_replay_and_duplicates_give_one_checksum(broker: str, tmp_path: Path) -> None:
    """A log replayed into an empty and into the full ledger, and one with every message twice: the same checksum."""
    sent = list(fleet.messages(4, 3, PARTITIONS))
    fleet.publish(broker, sent)
    rows = len(harness.expected_rows(broker))
    first = _meter(broker, "first", tmp_path / "first", rows)
    assert first.rows == rows > 50

    _renew(broker, [GPU_USAGE])
    assert _meter(broker, "replay", tmp_path / "empty", rows) == first
    assert _meter(broker, "once-more", tmp_path / "first", 2 * rows) == first

    _renew(broker, ALL_TOPICS)
    fleet.publish(broker, [copy for message in sent for copy in (message, message)])
    fleet.publish(broker, sent)
    assert _meter(broker, "doubled", tmp_path / "doubled", rows) == first

    changed = open_ledger(directory=tmp_path / "doubled")
    changed.command(
        "ALTER TABLE usage_ledger UPDATE used_us = used_us + 1 WHERE (out_partition, out_offset, gpu_uuid, holder) IN "
        "(SELECT out_partition, out_offset, gpu_uuid, holder FROM usage_ledger WHERE used_us > 0 LIMIT 1) "
        "SETTINGS mutations_sync = 1"
    )
    assert checksum(changed, Scope()).rows == rows
    assert checksum(changed, Scope()).hex != first.hex
    changed.close()
