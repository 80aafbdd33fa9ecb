"""The watcher and the simulated API server as processes in lock-step, on a real Kafka."""

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from infra.broker.topics import apply
from schemas.clock import decode_clock
from schemas.headers import decode_headers
from schemas.ids import message_key, partition_of
from schemas.names import INPUT_TOPICS, POD_EVENTS
from schemas.pods import decode_pod

S = 1_000_000
START = 1_700_000_040 * S
CLUSTER = "watcher-process-test"
KEY = "secret"


class Led:
    """A process under our lead."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self) -> dict[str, Any]:
        """Its next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"process ended with {self.process.wait(10)}"
        return dict(json.loads(line))

    def tell(self, **command: object) -> None:
        """Sends a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def finish(self) -> int:
        """Its exit code after it was told to finish."""
        self.tell(finish=True)
        return self.process.wait(20)


def _messages(bootstrap: str) -> dict[tuple[str, int], list[Any]]:
    """Every message of the test's cluster by (topic, partition), in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    topics = consumer.list_topics(timeout=10).topics
    found: dict[tuple[str, int], list[Any]] = {(t, n): [] for t in INPUT_TOPICS for n in topics[t].partitions}
    ends = {at: consumer.get_watermark_offsets(TopicPartition(*at), timeout=10)[1] for at in found}
    missing = {at for at, end in ends.items() if end}
    consumer.assign([TopicPartition(*at, 0) for at in found])
    while missing:
        message = consumer.poll(10)
        assert message is not None and message.error() is None
        at = (message.topic(), message.partition())
        if decode_headers(message.headers()).cluster == CLUSTER:
            found[at].append(message)
        if message.offset() + 1 >= ends[at]:
            missing.discard(at)
    consumer.close()
    return found


@pytest.mark.needs_broker
def test_watcher_process_in_lockstep_fills_the_topics(kafka: str) -> None:
    """Each step ends with all up to it in Kafka: records on the node's partition, a signed clock on every partition."""
    apply(kafka)
    kube = Led("infra.sim.kube_process", "--scenario", "default", "--start-us", str(START), "--hours", "0.1")
    url = kube.answer()["url"]
    assert kube.answer() == {"reached_us": START}
    where = ["--cluster", CLUSTER, "--api-url", url, "--bootstrap-servers", kafka, "--clock-key", KEY]
    watcher = Led("infra.sim.watcher_process", *where, "--start-us", str(START))
    assert watcher.answer() == {"reached_us": START}
    for step in range(1, 7):
        for process in (kube, watcher):
            process.tell(advance_to_us=START + step * 60 * S)
            assert process.answer() == {"reached_us": START + step * 60 * S}
    found = _messages(kafka)
    assert watcher.finish() == kube.finish() == 0
    expected = [START + n * 5 * S for n in range(73)]
    for (topic, partition), messages in found.items():
        told = [m.value() for m in messages if decode_headers(m.headers()).record == "clock"]
        assert [decode_clock(value, KEY.encode(), topic, partition).now_us for value in told] == expected
    pods = 0
    for partition in range(len(found) // len(INPUT_TOPICS)):
        for message in found[POD_EVENTS, partition]:
            headers = decode_headers(message.headers())
            if headers.record == "clock":
                continue
            pods += headers.record == "pod"
            assert message.key() == message_key(CLUSTER, headers.node)
            assert partition == partition_of(CLUSTER, headers.node, len(found) // len(INPUT_TOPICS))
            if headers.record == "pod":
                assert decode_pod(message.value()).node == headers.node
    assert pods > 3
