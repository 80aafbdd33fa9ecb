"""Provisional figures through real Kafka, worker, sink and engine: soon there, right, gone once the row is there."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from infra.front.place import live_front
from schemas.live import LIVE_COLUMNS
from stream_jobs.ledger import Ledger, open_ledger
from tests.integration import fleet, harness
from tests.integration.sinks import SinkProcess

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]
PARTITIONS, NODES, STEPS, WINDOW_US = 2, 3, 14, 15_000_000
_IN_BOTH = [c.name for c in LIVE_COLUMNS if c.name not in ("as_of_us", "known")]


@pytest.fixture
def running(own_kafka: LocalKafka, tmp_path: Path) -> Iterator[tuple[str, Path, harness.WorkerProcess, SinkProcess]]:
    """Broker, ledger directory, worker and sink; windows of 15 s that wait 10 s."""
    apply(own_kafka.bootstrap, partitions=PARTITIONS)
    sink = SinkProcess(own_kafka.bootstrap, tmp_path / "ledger")
    settings = {"GPUMETER_WORKER_WINDOW_S": "15", "GPUMETER_WORKER_LATENESS_S": "10", "GPUMETER_WORKER_LIVE_S": "0.2"}
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "worker.log", **settings)
    harness.wait_until(lambda: live_front(tmp_path / "ledger") is not None, 30, sink.text)
    yield own_kafka.bootstrap, tmp_path / "ledger", worker, sink
    assert worker.terminate() == 0, worker.tail()
    assert sink.end() == 0, sink.text()


def _rows(ledger: Ledger, what: str, table: str) -> list[dict[str, Any]]:
    names, rows = ledger.table(f"SELECT {what} FROM {table}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _step(bootstrap: str, nodes: list[Any], now_us: int) -> None:
    sent = [node.snapshot(now_us) for node in nodes if (now_us - fleet.START_US) % 60_000_000 == 0]
    fleet.publish(bootstrap, [*sent, *fleet.clocks(now_us, PARTITIONS), *(node.reading(now_us) for node in nodes)])


def _see(ledger: Ledger, nodes: list[Any], now_us: int, worker: harness.WorkerProcess, patience_s: float) -> float:
    """Seconds until every node's figures reach to a time."""
    wanted, began_s = [(node.name, now_us) for node in nodes], time.monotonic()
    sql = "SELECT node, max(as_of_us) FROM usage_provisional GROUP BY node"
    harness.wait_until(lambda: sorted(ledger.query(sql)) == wanted, patience_s, worker.tail)
    return time.monotonic() - began_s


def _check_sums(ledger: Ledger) -> None:
    sums = ledger.query(
        "SELECT sum(charged_us) = any(lifetime_us) AND any(lifetime_us) = any(as_of_us - window_start_us) "
        "FROM usage_provisional GROUP BY node, gpu_uuid, window_start_us"
    )
    assert {good for (good,) in sums} == {1}


def _check_top(directory: Path) -> None:
    argv = [sys.executable, "-m", "infra.cli.main", "top", "--once", "--directory", str(directory)]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "PROVISIONAL" in shown
    assert "pod-3" in shown


def _by_key(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    key = ("node", "gpu_uuid", "window_start_us", "holder")
    return {tuple(row[name] for name in key): tuple(row[name] for name in _IN_BOTH) for row in rows}


def test_readings_are_seen_within_five_seconds_until_their_row_is_there(
    running: tuple[str, Path, harness.WorkerProcess, SinkProcess],
) -> None:
    """Each reading is in usage_provisional within 5 s; its sets add up; a complete window shows its final figures,
    and is gone from there once it is in the ledger."""
    bootstrap, directory, worker, _ = running
    nodes = [fleet.Node(number, PARTITIONS) for number in range(NODES)]
    fleet.publish(bootstrap, [each for node in nodes for each in node.facts(fleet.START_US)])
    worker.wait_for("partition opened")
    ledger = open_ledger(url=str(live_front(directory)))
    complete: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for step in range(STEPS):
        now_us = fleet.START_US + step * fleet.PERIOD_US
        _step(bootstrap, nodes, now_us)
        took_s = _see(ledger, nodes, now_us, worker, 5.0 if step else 40.0)
        print(f"reading {step} seen after {took_s:.2f} s")
        rows = _rows(ledger, "*", "usage_provisional")
        assert {row["provisional"] for row in rows} == {True}
        complete |= _by_key([row for row in rows if row["as_of_us"] == row["window_end_us"]])
        _check_sums(ledger)
    closed = fleet.START_US + 2 * WINDOW_US
    sql = "SELECT max(window_end_us) FROM usage_ledger"
    harness.wait_until(lambda: ledger.query(sql) >= [(closed,)], 20, worker.tail)
    final = _by_key(_rows(ledger, ", ".join(_IN_BOTH), f"usage_ledger FINAL WHERE window_start_us >= {fleet.START_US}"))
    assert len(final) > 3 * NODES
    assert {key: complete[key] for key in final} == final
    both = (
        "SELECT count() FROM usage_provisional "
        "WHERE (node, window_start_us) IN (SELECT node, window_start_us FROM usage_ledger)"
    )
    assert ledger.query(both) == [(0,)]
    _check_top(directory)
    ledger.close()
