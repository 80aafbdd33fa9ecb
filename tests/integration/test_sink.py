"""The sink on a real Kafka and the real engine: exact through kill -9, garbage, replay, absence of ClickHouse."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from infra.front.engine import Engine
from infra.front.server import Front
from schemas.deadletters import decode_dead_letter
from schemas.headers import Headers, encode_headers
from schemas.names import DEAD_LETTERS, GPU_USAGE
from stream_jobs.ledger import ENGINE
from tests.integration.harness import read_all, wait_until
from tests.integration.sinks import SinkProcess, ask, content, drop, publish, usage
from tests.ledger_rows import headers, ledger_in, payload, row

pytestmark = pytest.mark.needs_broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real one-broker Apache Kafka for this module."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def kafka(broker: str) -> Iterator[str]:
    """Bootstrap servers of the broker with empty topics of two partitions."""
    apply(broker, partitions=2)
    yield broker
    drop(broker)


def test_field_case_69_sink_killed_between_insert_and_commit(kafka: str, tmp_path: Path) -> None:
    """kill -9 three times in mid-run: the rows equal those of an undisturbed sink, none is missing and none doubled."""
    ledger = tmp_path / "killed"
    messages = usage(600)
    for life in range(3):
        sink = SinkProcess(kafka, ledger)
        own = messages[life * 200 : life * 200 + 200]
        publish(kafka, own[:40])
        wait_until(lambda s=sink: s.status().get("rows", 0) > 0, 40, sink.text)
        publish(kafka, own[40:], pause_s=0.002)
        sink.kill()
        assert (ledger / "front.json").exists()
    last = SinkProcess(kafka, ledger)
    last.wait_for_offsets({"0": 300, "1": 300})
    assert last.end() == 0
    calm = SinkProcess(kafka, tmp_path / "calm")
    calm.wait_for_offsets({"0": 300, "1": 300})
    assert calm.end() == 0
    assert "where the ledger is" in last.text()
    assert content(ledger) == content(tmp_path / "calm")
    assert ask(ledger, "SELECT count(), uniqExact(out_partition, out_offset) FROM usage_ledger FINAL") == [(1800, 600)]
    assert ask(ledger, "SELECT count() FROM differing_copies") == [(0,)]
    assert ask(ledger, "SELECT count() FROM conservation_violations") == [(0,)]


def test_garbage_goes_to_dead_letters(kafka: str, tmp_path: Path) -> None:
    """Each kind of garbage becomes a dead letter with its reason and origin; the rows around it arrive."""
    good = usage(4)
    year_1970 = payload([row(), row(window_start_us=0, window_end_us=60_000_000)])
    nulls = [row() | {"charged_us": 1}]
    garbage = [
        (0, headers(), b"not arrow", "decode"),
        (0, headers(), b"", "decode"),
        (1, [], payload(nulls), "headers"),
        (1, headers(record="reading"), payload(nulls), "record"),
        (0, headers(version=99), payload(nulls), "version"),
        (0, headers(), payload(nulls)[:-400], "decode"),
        (1, headers(), year_1970, "constraint"),
    ]
    mixed = [good[0], *(g[:3] for g in garbage[:4]), *good[1:3], *(g[:3] for g in garbage[4:]), good[3]]
    publish(kafka, mixed)
    sink = SinkProcess(kafka, tmp_path / "ledger", "--flush-s", "1")
    reached = {str(p): sum(1 for m in mixed if m[0] == p) for p in (0, 1)}
    sink.wait_for_offsets(reached)
    assert sink.status()["dead_letters"] == len(garbage)
    assert sink.end() == 0
    assert ask(tmp_path / "ledger", "SELECT count() FROM usage_ledger FINAL") == [(12,)]
    letters = [decode_dead_letter(m.value() or b"") for m in read_all(kafka, [DEAD_LETTERS])]
    assert sorted(letter.reason for letter in letters) == sorted(g[3] for g in garbage)
    assert {letter.topic for letter in letters} == {GPU_USAGE}
    assert {(g.partition, g.payload) for g in letters} == {(g[0], g[2]) for g in garbage}


def test_replay_changes_nothing(kafka: str, tmp_path: Path) -> None:
    """Reading the whole topic again, and each message published twice, gives the same rows as once."""
    ledger = tmp_path / "ledger"
    publish(kafka, usage(50))
    sink = SinkProcess(kafka, ledger)
    sink.wait_for_offsets({"0": 25, "1": 25})
    assert sink.end() == 0
    before = content(ledger)
    publish(kafka, usage(50))
    again = SinkProcess(kafka, ledger, "--from-beginning")
    again.wait_for_offsets({"0": 50, "1": 50})
    assert again.status()["messages"] == 100
    assert again.end() == 0
    assert content(ledger) == before
    assert len(before) == 150


def test_sink_ends_cleanly_and_goes_on(kafka: str, tmp_path: Path) -> None:
    """SIGTERM inserts what was read, removes front.json and exits 0; the next start reads only what is new."""
    ledger = tmp_path / "ledger"
    publish(kafka, usage(10))
    sink = SinkProcess(kafka, ledger, "--flush-s", "60")
    wait_until(lambda: '"event": "ready"' in sink.text(), 30, sink.text)
    time.sleep(1.5)
    assert sink.end() == 0, sink.text()
    assert not (ledger / "front.json").exists()
    assert ask(ledger, "SELECT count() FROM usage_ledger") == [(30,)]
    publish(kafka, usage(2, first=10))
    following = SinkProcess(kafka, ledger)
    following.wait_for_offsets({"0": 6, "1": 6})
    assert following.status()["messages"] == 2
    assert following.end() == 0


def test_sink_waits_for_clickhouse(kafka: str, tmp_path: Path) -> None:
    """While ClickHouse is away nothing is lost and no offset passes; when it is back all rows arrive."""
    with ledger_in(tmp_path / "served") as served:
        front = Front(Engine(tmp_path / "served" / ENGINE), dict, read_only=False)
        front.start()
        port = int(front.url.rpartition(":")[2])
        sink = SinkProcess(kafka, tmp_path / "unused", "--url", front.url)
        wait_until(lambda: '"event": "ready"' in sink.text(), 30, sink.text)
        front.stop()
        publish(kafka, usage(6))
        wait_until(lambda: '"event": "waiting"' in sink.text(), 40, sink.text)
        assert sink.process.poll() is None
        assert served.query("SELECT count() FROM usage_ledger") == [(0,)]
        back = Front(Engine(tmp_path / "served" / ENGINE), dict, port=port, read_only=False)
        back.start()
        wait_until(lambda: served.query("SELECT sum(next_offset) FROM ledger_progress") == [(6,)], 40, sink.text)
        assert served.query("SELECT count() FROM usage_ledger FINAL") == [(18,)]
        assert sink.end() == 0, sink.text()
        back.stop()
    assert not (tmp_path / "unused").exists()


def test_recreated_topic_is_read_from_its_beginning(kafka: str, tmp_path: Path) -> None:
    """A topic that was dropped and made again starts anew, though the ledger had higher offsets of the old one."""
    ledger = tmp_path / "ledger"
    publish(kafka, usage(20))
    sink = SinkProcess(kafka, ledger)
    sink.wait_for_offsets({"0": 10, "1": 10})
    assert sink.end() == 0
    drop(kafka)
    apply(kafka, partitions=2)
    publish(kafka, usage(2, first=20))
    again = SinkProcess(kafka, ledger)
    again.wait_for_offsets({"0": 1, "1": 1})
    assert again.end() == 0
    assert ask(ledger, "SELECT count() FROM usage_ledger FINAL") == [(66,)]


def test_lost_messages_stop_the_sink(kafka: str, tmp_path: Path) -> None:
    """Messages that left the log before they were read stop the sink with a reason, until a person accepts the loss."""
    ledger = tmp_path / "ledger"
    publish(kafka, usage(4))
    sink = SinkProcess(kafka, ledger)
    sink.wait_for_offsets({"0": 2, "1": 2})
    assert sink.end() == 0
    publish(kafka, usage(6, first=4))
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(GPU_USAGE, 0, 4)]).values():
        future.result(20)
    refused = SinkProcess(kafka, ledger)
    assert refused.process.wait(30) == 4
    assert f"{GPU_USAGE}/0: offsets 2 to 3 left the log" in refused.text()
    accepting = SinkProcess(kafka, ledger, "--accept-loss")
    accepting.wait_for_offsets({"0": 5, "1": 5})
    assert accepting.end() == 0
    assert ask(ledger, "SELECT count() FROM usage_ledger FINAL") == [(24,)]


def test_sink_without_broker_or_topic_says_so(kafka: str, tmp_path: Path) -> None:
    """No broker is exit 3, no topic is exit 4 with the command that makes it, a front elsewhere is refused."""
    away = SinkProcess("127.0.0.1:1", tmp_path / "a")
    assert away.process.wait(40) == 3
    assert "does not answer" in away.text()
    drop(kafka)
    missing = SinkProcess(kafka, tmp_path / "b")
    assert missing.process.wait(30) == 4
    assert "gpumeter topics apply" in missing.text()
    apply(kafka, partitions=2)


def test_second_sink_on_a_directory_is_told_who_holds_it(kafka: str, tmp_path: Path) -> None:
    """One process holds a directory: a second sink ends with the reason, the first goes on."""
    first = SinkProcess(kafka, tmp_path / "ledger")
    wait_until(lambda: bool(first.status()), 30, first.text)
    second = SinkProcess(kafka, tmp_path / "ledger")
    assert second.process.wait(30) == 3
    assert "One process at a time" in second.text()
    announced = json.loads((tmp_path / "ledger" / "front.json").read_text())
    assert announced["pid"] == first.process.pid
    assert first.end() == 0


def test_headers_of_another_cluster_are_rows_too(kafka: str, tmp_path: Path) -> None:
    """One ledger takes rows of several clusters."""
    other = encode_headers(Headers(record="usage", cluster="c2", node="n1"))
    publish(kafka, [(0, other, payload([row(cluster="c2")])), *usage(1)])
    sink = SinkProcess(kafka, tmp_path / "ledger")
    sink.wait_for_offsets({"0": 2, "1": 0})
    assert sink.end() == 0
    assert ask(tmp_path / "ledger", "SELECT cluster, count() FROM usage_current GROUP BY 1 ORDER BY 1") == [
        ("c1", 3),
        ("c2", 1),
    ]
