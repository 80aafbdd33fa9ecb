"""`gpumeter dead-letters` over letters that a real worker wrote to a real Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.headers import Headers, encode_headers
from schemas.ids import message_key, partition_of
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, POD_EVENTS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import Refused
from stream_jobs.deadletters import letter_of
from stream_jobs.publish import Publisher
from tests.integration import fleet, harness
from tests.integration.pages import gpumeter, gpumeter_json

pytestmark = pytest.mark.needs_broker
NODES = [next(f"n{i}" for i in range(99) if partition_of("c", f"n{i}", 2) == partition) for partition in (0, 1)]
KEYS = [message_key("c", node) for node in NODES]
READINGS = [encode_headers(Headers(record="reading", cluster="c", node=node, boot_id="b", seq=1)) for node in NODES]
FUTURE = encode_headers(Headers(record="reading", version=99, cluster="c", node=NODES[1]))
FOREIGN = encode_headers(Headers(record="pod", cluster="c", node=NODES[1]))
GARBAGE = [
    fleet.Sent(GPU_SAMPLES, 0, KEYS[0], READINGS[0], b"\x00\xffnot arrow"),
    fleet.Sent(GPU_SAMPLES, 1, KEYS[1], FUTURE, b"later"),
    fleet.Sent(GPU_SAMPLES, 1, KEYS[1], READINGS[1], b""),
    fleet.Sent(POD_EVENTS, 1, KEYS[1], FOREIGN, b'{"uid": 5}'),
]


@pytest.fixture
def kafka(own_kafka: LocalKafka, tmp_path: Path) -> Iterator[str]:
    """A broker whose dead-letters hold one letter of each piece of garbage."""
    apply(own_kafka.bootstrap, partitions=2)
    fleet.publish(own_kafka.bootstrap, GARBAGE)
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "worker.log")
    harness.wait_until(lambda: len(_letters(own_kafka.bootstrap)) == len(GARBAGE), 40, worker.tail)
    yield own_kafka.bootstrap
    worker.kill()


def _letters(kafka: str) -> list[Any]:
    return harness.read_all(kafka, [DEAD_LETTERS])


def _last(kafka: str, topic: str, partition: int) -> Any:
    return [m for m in harness.read_all(kafka, [topic]) if m.partition() == partition][-1]


def test_letters_are_listed_shown_and_sent_again(kafka: str) -> None:
    """Letters are counted by kind, one is shown in full, and chosen originals come again byte for byte in place."""
    servers = ("--bootstrap-servers", kafka)
    code, kinds = gpumeter_json("dead-letters", "list", *servers)
    found = {(kind["reason"], kind["topic"]): kind["letters"] for kind in kinds}
    assert (code, found) == (0, {
        ("decode", GPU_SAMPLES): 2, ("version", GPU_SAMPLES): 1, ("decode", POD_EVENTS): 1,
    })  # fmt: skip
    _, each = gpumeter_json("dead-letters", "list", "--each", "--reason", "version", "--hours", "1", *servers)
    assert [(row["topic"], row["partition"], row["record"]) for row in each] == [(GPU_SAMPLES, 1, "reading")]
    _, text, _ = gpumeter("dead-letters", "list", *servers)
    assert "version 99 of reading" in text

    code, shown = gpumeter_json("dead-letters", "show", str(each[0]["offset"]), *servers)
    assert code == 0
    assert ["version", "99"] in shown["headers"] and shown["payload_base64"] == "bGF0ZXI="
    code, text, _ = gpumeter("dead-letters", "show", str(each[0]["offset"]), *servers)
    assert "6c 61 74 65 72" in text and "header version: 99" in text
    assert gpumeter("dead-letters", "show", "999", *servers)[0] == 1

    ends = len(harness.read_all(kafka, [GPU_SAMPLES]))
    code, planned = gpumeter_json("dead-letters", "retry", "--reason", "decode", "--dry-run", *servers)
    assert (code, len(planned["sent"]), len(harness.read_all(kafka, [GPU_SAMPLES]))) == (0, 3, ends)
    code, out, lines = gpumeter("dead-letters", "retry", "--reason", "version", "--json", *servers)
    again = json.loads(out)["sent"]
    message = _last(kafka, GPU_SAMPLES, 1)
    assert (code, [row["new_offset"] for row in again]) == (0, [message.offset()])
    assert (message.value(), message.headers(), message.key()) == (b"later", FUTURE, KEYS[1])
    assert '"event": "retried"' in lines
    harness.wait_until(lambda: len(_letters(kafka)) == len(GARBAGE) + 1, 20, str)


def test_letter_that_is_good_by_now_is_metered(kafka: str) -> None:
    """An original that today's reader takes makes no new letter, and one that is not whole is kept back with 1."""
    good = next(m for m in fleet.messages(1, 1, 2) if m.topic == GPU_SAMPLES and m.headers[0][1] == b"reading")
    publisher = Publisher(kafka, "test")
    for offset, payload in ((500, good.payload), (501, b"x" * 600_000)):
        record = LogRecord(offset, 1, good.headers, payload)
        refused = Refused(GPU_SAMPLES, offset, "old_reader", "by a reader of yesterday", record)
        publisher.send(letter_of(refused, good.partition))
    publisher.flush()
    count = len(_letters(kafka))
    code, answer = gpumeter_json("dead-letters", "retry", "--reason", "old_reader", "--bootstrap-servers", kafka)
    assert (code, len(answer["sent"]), len(answer["kept"])) == (1, 1, 1)
    assert "bytes of its payload were kept" in answer["kept"][0]["fault"]
    assert _last(kafka, GPU_SAMPLES, good.partition).value() == good.payload
    fleet.publish(kafka, [fleet.Sent(GPU_SAMPLES, good.partition, b"k", [], b"behind it")])
    harness.wait_until(lambda: len(_letters(kafka)) == count + 1, 20, str)
    assert b"behind it" not in _letters(kafka)[-1].value()
    assert b'"reason":"headers"' in _letters(kafka)[-1].value()


def test_wrong_use_and_absent_broker(tmp_path: Path) -> None:
    """A retry without any choice is 2 and asks no broker; a broker that is away is 3."""
    code, _, said = gpumeter("dead-letters", "retry", "--bootstrap-servers", "127.0.0.1:1")
    assert code == 2 and "--all" in said
    code, _, said = gpumeter("dead-letters", "list", "--bootstrap-servers", "127.0.0.1:1")
    assert code == 3 and "127.0.0.1:1" in said
