"""`gpumeter watcher` as it is run in a cluster: on a real Kafka, in real time, ended and started again."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from confluent_kafka import Consumer, TopicPartition

from collector.clock import SystemClock
from infra.broker.ports import free_ports
from infra.broker.topics import apply
from infra.sim.kube_api import WATCHER_NAMESPACE, WATCHER_POD, KubeApi
from infra.sim.model import SimCluster, SimContainer, SimNode, SimPod
from infra.status.process import ask
from schemas.headers import decode_headers
from schemas.ids import partition_of
from schemas.names import POD_EVENTS
from schemas.pods import PodRecord, decode_pod
from tests.integration.pages import total, wait_ready

S = 1_000_000
CLUSTER = "watcher-cli-test"


@pytest.fixture
def pods(kafka: str) -> Iterator[Callable[[], dict[str, PodRecord]]]:
    """The newest record of each pod of node n1 in pod-events, as of a call."""
    apply(kafka)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "none", "enable.auto.commit": False})
    count = len(consumer.list_topics(POD_EVENTS, timeout=10).topics[POD_EVENTS].partitions)
    consumer.assign([TopicPartition(POD_EVENTS, partition_of(CLUSTER, "n1", count), 0)])
    found: dict[str, PodRecord] = {}

    def newest() -> dict[str, PodRecord]:
        while (message := consumer.poll(0.3)) is not None:
            headers = decode_headers(message.headers())
            if (headers.cluster, headers.record) == (CLUSTER, "pod"):
                record = decode_pod(message.value() or b"")
                found[record.uid] = record
        return found

    yield newest
    consumer.close()


def _pod(uid: str, start_us: int, *runs: tuple[int, int | None]) -> SimPod:
    made = [
        SimContainer("main", f"{uid}{i}", start_us + a * S, None if b is None else start_us + b * S)
        for i, (a, b) in enumerate(runs)
    ]
    return SimPod(uid, "team", uid, "n1", start_us, None, tuple(made))


def _until(true: Callable[[], object], seconds: float = 40) -> None:
    end = monotonic() + seconds
    while not true():
        assert monotonic() < end, "did not happen in time"
        sleep(0.1)


def _start(url: str, kafka: str, log: Path, metrics_port: int = 0) -> subprocess.Popen[bytes]:
    own = {"GPUMETER_POD_NAMESPACE": WATCHER_NAMESPACE, "GPUMETER_POD_NAME": WATCHER_POD}
    where = {"GPUMETER_CLUSTER": CLUSTER, "GPUMETER_BOOTSTRAP_SERVERS": kafka, "GPUMETER_API_URL": url}
    port = ["--metrics-port", str(metrics_port)]
    command = [sys.executable, "-m", "infra.cli.main", "watcher", "--token-file", "", *port]
    with log.open("ab") as out:
        return subprocess.Popen(command, env={**os.environ, **own, **where}, stdout=out, stderr=out)


@pytest.mark.needs_broker
def test_watcher_goes_on_where_the_last_one_ended(
    kafka: str, pods: Callable[[], dict[str, PodRecord]], tmp_path: Path
) -> None:
    """After a kill, a pod deleted meanwhile is told deleted and runs that the API server forgot are still known."""
    start_us = SystemClock().event_us() - 100 * S
    story = (_pod("restarts", start_us, (1, 10), (11, 20), (21, 30), (31, None)), _pod("vanishes", start_us, (1, None)))
    api = KubeApi(SimCluster(CLUSTER, start_us, start_us + 1000 * S, (SimNode("n1", start_us, "b", ()),), story))
    url = api.start()
    api.advance(start_us + 15 * S)
    first = _start(url, kafka, tmp_path / "log")
    _until(lambda: {"restarts", "vanishes"} <= set(pods()))
    first.kill()
    first.wait(10)
    api.advance(start_us + 50 * S)
    gone = api.log.get("pods", "team/vanishes")
    assert gone is not None
    api.log.put("DELETED", "pods", gone)
    second = _start(url, kafka, tmp_path / "log")
    _until(lambda: pods()["vanishes"].deleted_us)
    second.send_signal(signal.SIGTERM)
    assert second.wait(20) == 0
    api.stop()
    # Run 1 was told to the first watcher; to the second only run 2 and the present one.
    runs = [run.container_id for run in pods()["restarts"].containers[0].runs]
    assert runs == ["restarts0", "restarts1", "restarts2", "restarts3"]


@pytest.mark.needs_broker
def test_watcher_says_whether_its_clock_goes_out(kafka: str, tmp_path: Path) -> None:
    """Ready while the clock goes out, with what it follows; without its API server each tick is counted as tried."""
    apply(kafka)
    start_us = SystemClock().event_us() - 100 * S
    node, story = SimNode("n1", start_us, "b", ()), (_pod("one", start_us, (1, None)),)
    api = KubeApi(SimCluster(CLUSTER, start_us, start_us + 1000 * S, (node,), story))
    url = api.start()
    api.advance(start_us + 15 * S)
    (port,) = free_ports(1)
    watcher = _start(url, kafka, tmp_path / "log", port)
    state = wait_ready(port, (tmp_path / "log").read_text)
    assert state.health is not None and state.health.process == "watcher"
    assert (total(state, "gpumeter_watcher_nodes"), total(state, "gpumeter_watcher_retries_total")) == (1, 0)
    assert total(state, "gpumeter_messages_total") > 0
    first_s = total(state, "gpumeter_watcher_clock_timestamp_seconds")
    assert 0 <= SystemClock().event_us() / S - first_s < 30
    api.stop()
    _until(lambda: total(ask(f"127.0.0.1:{port}"), "gpumeter_watcher_retries_total") > 0)
    watcher.send_signal(signal.SIGTERM)
    assert watcher.wait(40) == 0


@pytest.mark.parametrize("wrong", ["--api-url=nowhere", "--kafka-options={", "--ca-file=missing --api-url=https://x"])
def test_wrong_settings_end_with_2(wrong: str) -> None:
    """A setting that cannot be used ends the command with 2 and its name, before anything is asked."""
    own = ["--cluster", "c", "--bootstrap-servers", "127.0.0.1:1", "--pod-namespace", "n", "--pod-name", "p"]
    command = [sys.executable, "-m", "infra.cli.main", "watcher", *own, *wrong.split()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "settings cannot be used" in ended.stderr
