"""What no worker may go on from, on a real Kafka: it ends with code 4, says why, and commits nothing more."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.names import GPU_SAMPLES, GPU_USAGE, INPUT_TOPICS, METER_PROGRESS
from stream_jobs.progress import Pointer, decode_pointer, encode_pointer
from tests.integration import fleet, harness

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]
GROUP = "gpumeter"
ALIKE = (*INPUT_TOPICS, GPU_USAGE, METER_PROGRESS)


@pytest.fixture
def metered(own_kafka: LocalKafka, tmp_path: Path) -> str:
    """Bootstrap servers of a broker with one partition, of which a worker has committed its progress and ended."""
    apply(own_kafka.bootstrap, partitions=1)
    fleet.publish(own_kafka.bootstrap, fleet.messages(2, 6, 1))
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "first.log")
    harness.wait_until(lambda: len(harness.published_rows(own_kafka.bootstrap)[0]) > 40, 40, worker.tail)
    worker.wait_for("progress committed")
    assert worker.terminate() == 0, worker.tail()
    return own_kafka.bootstrap


def _ends_with(bootstrap: str, log: Path, text: str) -> None:
    before = _commits(bootstrap)
    worker = harness.WorkerProcess(bootstrap, log)
    assert worker.process.wait(40) == 4, worker.tail()
    assert text in log.read_text(), worker.tail()
    assert _commits(bootstrap) == before


def _group(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})


def _commits(bootstrap: str) -> dict[str, tuple[int, str]]:
    consumer = _group(bootstrap)
    found = consumer.committed([TopicPartition(topic, 0) for topic in INPUT_TOPICS], 20)
    consumer.close()
    return {place.topic: (place.offset, place.metadata or "") for place in found}


def _recommit(bootstrap: str, metadata: str) -> None:
    """Commits the same offsets with other metadata, as another program might."""
    places = [
        TopicPartition(topic, 0, offset, metadata.rstrip("\0")) for topic, (offset, _) in _commits(bootstrap).items()
    ]
    consumer = _group(bootstrap)
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def _pointer(bootstrap: str) -> Pointer:
    return decode_pointer(_commits(bootstrap)[GPU_SAMPLES][1])


def test_progress_that_is_gone_stops(metered: str, tmp_path: Path) -> None:
    """Where the log no longer has the record that the commit names the worker stops and says which."""
    whole = _pointer(metered)
    _recommit(metered, encode_pointer(Pointer(1, whole.writer, whole.slot, [10**6], whole.sha256)))
    _ends_with(metered, tmp_path / "again.log", "are gone, the commit names them")


def test_progress_that_is_torn_stops(metered: str, tmp_path: Path) -> None:
    """Where the record hashes to something else than the commit says the worker stops."""
    whole = _pointer(metered)
    torn = Pointer(1, whole.writer, whole.slot, whole.chunks, "0" * 32, whole.reached, whole.topics, whole.partitions)
    _recommit(metered, encode_pointer(torn))
    _ends_with(metered, tmp_path / "again.log", "the commit says " + "0" * 32)


def test_commit_of_a_stranger_stops(metered: str, tmp_path: Path) -> None:
    """Where another program committed in the group's name the worker stops and shows what it found."""
    _recommit(metered, "a stranger was here")
    _ends_with(metered, tmp_path / "again.log", "a stranger was here")


def test_topic_made_anew_stops(metered: str, tmp_path: Path) -> None:
    """A topic that was deleted and made again under the worker's progress stops it."""
    admin = AdminClient({"bootstrap.servers": metered})
    admin.delete_topics([GPU_SAMPLES])[GPU_SAMPLES].result(20)
    harness.wait_until(lambda: GPU_SAMPLES not in admin.list_topics(timeout=20).topics, 20, lambda: "not deleted")
    apply(metered, partitions=1)
    fleet.publish(metered, fleet.messages(2, 6, 1))
    _ends_with(metered, tmp_path / "again.log", "it was made anew, and offsets mean something else in it")


def test_topics_that_grew_stop(metered: str, tmp_path: Path) -> None:
    """Partitions added to all topics alike stop the next worker; added to one topic they stop it as well."""
    admin = AdminClient({"bootstrap.servers": metered})
    for future in admin.create_partitions([NewPartitions(GPU_SAMPLES, 2)]).values():
        future.result(20)
    _ends_with(metered, tmp_path / "one.log", "have different partition counts")
    grown = [NewPartitions(topic, 2) for topic in ALIKE if topic != GPU_SAMPLES]
    for future in admin.create_partitions(grown).values():
        future.result(20)
    _ends_with(metered, tmp_path / "all.log", "had 1 partitions and have 2")
