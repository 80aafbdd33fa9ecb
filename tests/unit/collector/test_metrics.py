"""What the agent says about itself."""

import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from collector.clock import SystemClock
from collector.metrics import COLLECTOR_METRICS, AgentMetrics, Page, serve_agent
from infra.broker.ports import free_ports

S = 1_000_000


class _Sender:
    acknowledged, dropped, failed, waiting = 5, 2, 0, 1
    gaps, faults, syncs, held_bytes, on_disk = 1, 4, 6, 77, True


def _ready(sender: _Sender) -> AgentMetrics:
    metrics = AgentMetrics(sender)
    metrics.driver_ready, metrics.readings = True, 1
    return metrics


def test_metrics_are_what_was_counted() -> None:
    """Every number appears in the exposition under its name, with its unit and labels."""
    metrics = AgentMetrics(_Sender())
    metrics.readings, metrics.reading_us, metrics.refused_rows = 2, 3_000_000, 98
    metrics.answers["lists", 4] += 3
    metrics.grants_known = True
    registry = CollectorRegistry()
    registry.register(Page(COLLECTOR_METRICS, metrics.values, lambda: metrics.health(0)))
    text = generate_latest(registry).decode()
    for line in (
        "gpumeter_collector_readings_total 2.0", "gpumeter_collector_reading_seconds_total 3.0",
        "gpumeter_collector_refused_rows_total 98.0", 'gpumeter_messages_total{outcome="dropped"} 2.0',
        'gpumeter_collector_driver_answers_total{call="lists",code="4"} 3.0', "gpumeter_queued_messages 1.0",
        "gpumeter_collector_grants_known 1.0", "gpumeter_collector_driver_ready 0.0",
        "gpumeter_collector_spool_gaps_total 1.0", "gpumeter_collector_spool_faults_total 4.0",
        "gpumeter_collector_spool_syncs_total 6.0", "gpumeter_collector_spool_bytes 77.0",
        "gpumeter_collector_spool_on_disk 1.0",
    ):  # fmt: skip
        assert line in text.splitlines()


def test_agent_is_ready_when_driver_and_broker_answer() -> None:
    """Not ready before the driver answers, a reading is taken and the broker has acknowledged; each says so."""
    sender = _Sender()
    sender.acknowledged = 0
    fresh = AgentMetrics(sender)
    assert fresh.health(0).reasons == [
        "the driver does not answer", "no reading yet", "the broker has acknowledged nothing yet",
    ]  # fmt: skip
    assert _ready(_Sender()).health(0).ready


def test_agent_whose_messages_wait_is_not_ready() -> None:
    """When messages wait and none was acknowledged for a minute, the broker is away; one acknowledgement ends that."""
    sender = _Sender()
    metrics = _ready(sender)
    metrics.turned(0)
    metrics.turned(61 * S)
    assert metrics.health(61 * S).reasons == ["1 messages wait, none was acknowledged for 61 s"]
    sender.acknowledged += 1
    metrics.turned(62 * S)
    assert metrics.health(62 * S).ready
    sender.waiting = 0
    metrics.turned(63 * S)
    metrics.turned(200 * S)
    assert metrics.health(200 * S).ready


def test_agent_whose_loop_stands_is_unhealthy() -> None:
    """Two minutes without a turn of the loop is not healthy."""
    metrics = _ready(_Sender())
    metrics.turned(10 * S)
    assert metrics.health(130 * S).healthy
    assert not metrics.health(131 * S).healthy


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503), ("/metrics", 200)])
def test_agent_answers_on_its_port(path: str, status: int) -> None:
    """The agent's port answers all three paths, and readiness with its reasons."""
    (port,) = free_ports(1)
    serve_agent("127.0.0.1", port, AgentMetrics(_Sender()), SystemClock())
    try:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}{path}", timeout=5) as got:
            found, body = got.status, got.read()
    except HTTPError as error:
        found, body = error.code, error.read()
    assert found == status
    assert (b"the driver does not answer" in body) == (path != "/metrics")


def test_page_library_is_loaded_only_where_it_is_served() -> None:
    """Without a port the agent loads neither prometheus_client nor a web server: they cost a tenth of its memory."""
    code = (
        "import sys; import collector.cli; from collector.metrics import *; from collector.clock import SystemClock; "
        "serve_agent('127.0.0.1', 0, AgentMetrics(), SystemClock()); "
        "print([m for m in ('prometheus_client', 'wsgiref', 'http.server') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
