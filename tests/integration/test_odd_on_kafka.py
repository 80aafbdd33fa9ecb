"""Header names that are not UTF-8, through a real worker and a real Kafka: also where they are read again."""

from pathlib import Path

import pytest

from collector.watcher.remember import remember
from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.deadletters import decode_dead_letter
from schemas.headers import decode_headers
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, POD_MAPPINGS
from tests.integration import fleet, harness, odd

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]


def test_a_worker_reads_odd_header_names_again_as_it_read_them_first(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """A reading beside whose headers stands an odd one counts, garbage with one is a dead letter; a worker that takes
    over, and repair passes, read both again as they were: the rows are those of an undisturbed meter."""
    apply(own_kafka.bootstrap, partitions=1)
    sent = list(fleet.messages(2, 12, 1))
    readings = [at for at, message in enumerate(sent) if message.topic == GPU_SAMPLES and _node(message) == "node-0"]
    late = set(readings[40:45])
    in_order = [message for at, message in enumerate(sent) if at not in late]
    middle = len(in_order) * 2 // 3
    at = next(i for i in range(middle - 40, middle) if in_order[i].topic == GPU_SAMPLES and _node(in_order[i]) != "")
    fleet.publish(own_kafka.bootstrap, in_order[:at])
    _publish_odd(own_kafka.bootstrap, in_order[at])
    odd.publish_odd(own_kafka.bootstrap, POD_MAPPINGS, 0, [("record", b"snapshot")], b"garbage")
    fleet.publish(own_kafka.bootstrap, in_order[at + 1 : middle])
    killed = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "killed.log", GPUMETER_WORKER_INSTANCE="slot")
    killed.wait_for("progress committed")
    killed.kill()
    for each in sorted(late):
        _publish_odd(own_kafka.bootstrap, sent[each])
    fleet.publish(own_kafka.bootstrap, in_order[middle:])
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "worker.log", GPUMETER_WORKER_INSTANCE="slot")
    expected = harness.assert_publishes_all(worker, own_kafka.bootstrap)
    assert any(key[-1] for key in expected), "there was nothing to revise"
    letters = [decode_dead_letter(m.value() or b"") for m in harness.read_all(own_kafka.bootstrap, [DEAD_LETTERS])]
    assert letters and {(letter.topic, letter.payload) for letter in letters} == {(POD_MAPPINGS, b"garbage")}
    assert len({(letter.reason, letter.detail, str(letter.headers)) for letter in letters}) == 1


def _node(message: fleet.Sent) -> str:
    return decode_headers(message.headers).node


def _publish_odd(bootstrap: str, message: fleet.Sent) -> None:
    odd.publish_odd(bootstrap, message.topic, message.partition, message.headers, message.payload)


def test_a_watcher_remembers_what_stands_beside_an_odd_header_name(own_kafka: LocalKafka) -> None:
    """A watcher that begins counts such messages as refused and remembers all others; it does not end."""
    apply(own_kafka.bootstrap, partitions=1)
    facts = [message for number in range(40) for message in fleet.Node(number, 1).facts(fleet.START_US)]
    fleet.publish(own_kafka.bootstrap, facts)
    for _ in range(2):
        _publish_odd(own_kafka.bootstrap, facts[-1])
    fleet.publish(own_kafka.bootstrap, list(fleet.Node(40, 1).facts(fleet.START_US)))
    memory = remember(fleet.CLUSTER, own_kafka.bootstrap, {}, fleet.START_US)
    assert memory.refused == 2
    assert len(memory.nodes) == 41 and len(memory.pods) == 41 * fleet.PODS
