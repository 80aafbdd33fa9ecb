"""The local Apache Kafka itself: survives kill -9, leaves nothing behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from infra.broker.kafka import LocalKafka

pytestmark = pytest.mark.needs_broker


def test_acknowledged_record_survives_kill(own_kafka: LocalKafka) -> None:
    """A record acknowledged before kill -9 of the broker is read after its restart, at the same address."""
    address = own_kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(20)
    producer = Producer({"bootstrap.servers": address, "acks": "all", "enable.idempotence": True})
    producer.produce("t", b"kept")
    assert producer.flush(20) == 0
    own_kafka.kill(0)
    own_kafka.restart(0)
    assert own_kafka.bootstrap == address
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition("t", 0, 0)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.value() == b"kept"


def test_broker_dies_with_its_owner(tmp_path: Path) -> None:
    """kill -9 of the process that started the broker leaves no broker behind."""
    program = (
        "import sys, time; from pathlib import Path; from infra.broker.kafka import LocalKafka\n"
        "cluster = LocalKafka(Path(sys.argv[1])); cluster.start(); print(cluster.pids()[0], flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
