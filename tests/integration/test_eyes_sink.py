"""What a sink says of itself: ready at the end of its topic, behind or waiting when it is, unhealthy when it hangs."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.ports import free_ports
from infra.broker.topics import apply
from infra.front.engine import Engine
from infra.front.server import Front
from infra.status.process import ask
from stream_jobs.ledger import ENGINE
from tests.integration.harness import wait_until
from tests.integration.pages import is_ready, total, wait_ready
from tests.integration.sinks import SinkProcess, publish, usage
from tests.ledger_rows import ledger_in

pytestmark = pytest.mark.needs_broker


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real one-broker Apache Kafka for this module, its topics of two partitions."""
    with LocalKafka(tmp_path_factory.mktemp("kafka")) as cluster:
        apply(cluster.bootstrap, partitions=2)
        yield cluster.bootstrap


class _Hanging:
    """Takes connections on a port and never answers."""

    def __init__(self, port: int) -> None:
        self._taken: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", port), backlog=16)
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self._taken.append(self._socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        """Ends all connections."""
        self._socket.close()
        for each in self._taken:
            each.close()


def test_sink_is_ready_at_the_end_of_its_topic(kafka: str, tmp_path: Path) -> None:
    """Ready with everything in the ledger, lag 0 and its counts shown; garbage counts by its reason."""
    publish(kafka, [*usage(20), (0, [], b"garbage")])
    (port,) = free_ports(1)
    sink = SinkProcess(kafka, tmp_path / "ledger", "--metrics-port", str(port))
    state = wait_ready(port, sink.text)
    wait_until(lambda: total(ask(f"127.0.0.1:{port}"), "gpumeter_sink_lag_records") == 0, 20, sink.text)
    state = ask(f"127.0.0.1:{port}")
    assert state.health is not None and state.health.process == "sink"
    assert total(state, "gpumeter_sink_rows_total") == 60
    assert state.numbers["gpumeter_sink_dead_letters_total"] == {("headers",): 1.0}
    assert set(state.numbers["gpumeter_sink_lag_seconds"].values()) == {0.0}
    assert sink.end() == 0, sink.text()


def test_sink_whose_ledger_is_away_or_hangs_says_so(kafka: str, tmp_path: Path) -> None:
    """ClickHouse away: it waits, healthy and not ready. ClickHouse that never answers: not healthy after its bound."""
    with ledger_in(tmp_path / "served"):
        front = Front(Engine(tmp_path / "served" / ENGINE), dict, read_only=False)
        front.start()
        ledger_port, (port,) = int(front.url.rpartition(":")[2]), free_ports(1)
        options = ["--url", front.url, "--metrics-port", str(port), "--health-s", "3", "--ready-lag-s", "5"]
        sink = SinkProcess(kafka, tmp_path / "unused", *options)
        wait_ready(port, sink.text)
        front.stop()
        publish(kafka, usage(6))
        wait_until(lambda: not is_ready(port), 30, sink.text)
        health = ask(f"127.0.0.1:{port}").health
        assert health is not None and health.healthy
        assert any(reason.startswith("waiting: ") for reason in health.reasons), health
        assert total(ask(f"127.0.0.1:{port}"), "gpumeter_sink_waiting") == 1
        hanging = _Hanging(ledger_port)
        wait_until(lambda: not _healthy(port), 60, sink.text)
        health = ask(f"127.0.0.1:{port}").health
        assert health is not None and any("has not turned" in reason for reason in health.reasons)
        sink.kill()
        hanging.close()


def _healthy(port: int) -> bool:
    health = ask(f"127.0.0.1:{port}").health
    return health is None or health.healthy
