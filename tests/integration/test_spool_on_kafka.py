"""The spool on a real broker: away, the agent killed meanwhile, and back; too small a disk for the outage."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from collector.clock import SystemClock
from collector.publish import Publisher
from collector.spool import Spool
from infra.broker import topics
from infra.broker.kafka import LocalKafka
from schemas.gaps import decode_gap
from schemas.headers import GAP, READING, SNAPSHOT, Headers, decode_headers
from schemas.ids import partition_of
from schemas.names import GPU_SAMPLES, POD_MAPPINGS

PARTITIONS = 2
PERIOD_US = 200_000
Message = tuple[Headers, bytes]


def _messages(bootstrap: str, topic: str) -> list[Message]:
    """The node's messages on a topic as of now, in order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    place = TopicPartition(topic, partition_of("c", "n", PARTITIONS), 0)
    _, end = consumer.get_watermark_offsets(place, timeout=20)
    consumer.assign([place])
    found: list[Message] = []
    offset = 0
    while offset < end:
        message = consumer.poll(20)
        assert message is not None and not message.error(), f"{topic} was not read to its end"
        offset = (message.offset() or 0) + 1
        found.append((decode_headers(message.headers()), message.value() or b""))
    consumer.close()
    return found


def _agent(folder: Path, bootstrap: str) -> subprocess.Popen[bytes]:
    """The node agent over a replayed driver, five readings a second, its spool in the folder."""
    (folder / "gpus.json").write_text(json.dumps([{"uuid": "GPU-0", "pids": [1]}]))
    settings = {
        "CLUSTER": "c", "NODE": "n", "BOOTSTRAP_SERVERS": bootstrap, "NVML_PERIOD_US": str(PERIOD_US),
        "SNAPSHOT_PERIOD_US": "500000", "FOREIGN_PIDS": "true", "KUBELET_SOCKET": str(folder / "none.sock"),
        "SPOOL_PATH": str(folder / "spool"),
    }  # fmt: skip
    environment = {**os.environ, **{f"GPUMETER_{name}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "infra.bench.agent_process", str(folder / "gpus.json"), str(folder / "spent.json")]
    return subprocess.Popen(command, env=environment)


def _wait(enough: Callable[[list[Message]], bool], bootstrap: str) -> None:
    """Waits until what is on gpu-samples is enough; a broker that is coming up may not know its topics yet."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(KafkaException):
            if enough(_messages(bootstrap, GPU_SAMPLES)):
                return
        time.sleep(0.2)
    raise AssertionError("it did not happen in 60 s")


def _is_whole_and_in_order(messages: list[Message], record: str) -> dict[int, int]:
    """Asserts that what is new comes in order, epoch after epoch, without a hole; the last number of each epoch."""
    seen: dict[tuple[int, int], bytes] = {}
    last: dict[int, int] = {}
    for headers, payload in messages:
        if headers.record != record:
            continue
        identity = (headers.epoch_us, headers.seq)
        if identity in seen:
            assert seen[identity] == payload, "a resend is not the same message"
            continue
        assert headers.epoch_us >= max(last, default=0), "an older epoch came after a newer one"
        assert headers.seq == last.get(headers.epoch_us, 0) + 1, "a number is missing"
        seen[identity], last[headers.epoch_us] = payload, headers.seq
    return last


@pytest.mark.slow
@pytest.mark.needs_broker
def test_agents_killed_while_the_broker_is_away_lose_nothing(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """Two agents are killed with -9 during an outage: every number of theirs arrives, in order, the third's last."""
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    agents = [_agent(tmp_path, own_kafka.bootstrap)]
    try:
        _wait(lambda found: len(found) > 10, own_kafka.bootstrap)
        own_kafka.kill(0)
        time.sleep(3)
        for _ in range(2):
            agents[-1].kill()
            agents[-1].wait()
            agents.append(_agent(tmp_path, own_kafka.bootstrap))
            time.sleep(4)
        own_kafka.restart(0)
        _wait(lambda found: len({h.epoch_us for h, _ in found}) == 3, own_kafka.bootstrap)
        agents[-1].send_signal(signal.SIGTERM)
        assert agents[-1].wait(40) == 0
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.kill()
                agent.wait()
    samples, mappings = (_messages(own_kafka.bootstrap, topic) for topic in (GPU_SAMPLES, POD_MAPPINGS))
    readings, snapshots = _is_whole_and_in_order(samples, READING), _is_whole_and_in_order(mappings, SNAPSHOT)
    assert len(readings) == 3 and min(readings.values()) > 10
    assert snapshots.keys() == readings.keys()
    told = [decode_gap(payload) for h, payload in samples + mappings if h.record == GAP]
    assert all(gap.first_seq > readings[gap.epoch_us] or gap.first_seq > snapshots[gap.epoch_us] for gap in told)


@pytest.mark.needs_broker
def test_what_a_small_spool_drops_is_told(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """An outage longer than the spool: the newest arrive in order behind gaps that name exactly the rest."""
    topics.apply(own_kafka.bootstrap, partitions=PARTITIONS, replication=1)
    publisher = Publisher("c", own_kafka.bootstrap)
    assert publisher.partition_count(GPU_SAMPLES, 20) == PARTITIONS
    clock = SystemClock()
    spool = Spool(publisher, clock, tmp_path / "spool", limit_bytes=1 << 20, memory_bytes=1 << 20)
    own_kafka.kill(0)
    for seq in range(1, 301):
        headers = Headers(record=READING, cluster="c", node="n", boot_id="b", epoch_us=1, seq=seq)
        assert spool.produce(GPU_SAMPLES, "n", headers, os.urandom(20_000))
        spool.poll()
    own_kafka.restart(0)
    spool.flush(60)
    lost = spool.dropped
    spool.close()
    arrived: list[int] = []
    told: list[int] = []
    for headers, payload in _messages(own_kafka.bootstrap, GPU_SAMPLES):
        if headers.record == GAP:
            gap = decode_gap(payload)
            told += range(gap.first_seq, gap.last_seq + 1)
            assert gap.start_us <= gap.end_us <= clock.event_us()
        else:
            arrived.append(headers.seq)
        both = sorted(arrived + told)
        assert both == list(range(1, len(both) + 1)), "a gap does not stand in its place"
    assert sorted(arrived + told) == list(range(1, 301)) and arrived == sorted(arrived)
    assert len(told) == lost > 150 and arrived[-1] == 300
