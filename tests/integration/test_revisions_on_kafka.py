"""Late data through a real worker and a real Kafka: revisions that make good what was late, also through kill -9."""

from pathlib import Path
from typing import Any

import pytest

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from schemas.headers import decode_headers
from schemas.names import GPU_SAMPLES
from schemas.usage import KEY_COLUMNS
from stream_jobs.core.contents import LogRecord
from tests.integration import fleet, harness

pytestmark = [pytest.mark.needs_broker, pytest.mark.slow]
MINUTE_US = 60_000_000
DIFFERENCES = ("held_us", "used_us", "charged_us", "memory_byte_ms", "energy_mj")
LATE_FROM_US = fleet.START_US + 5 * MINUTE_US
LATE_TO_US = fleet.START_US + 11 * MINUTE_US
AWAY_US = 30 * MINUTE_US


def _late_log() -> tuple[list[fleet.Sent], list[fleet.Sent]]:
    """A log of two nodes in order, and one in which six minutes of a node's readings come half an hour late."""
    in_order = list(fleet.messages(2, 45, 1))
    held: list[fleet.Sent] = []
    late: list[fleet.Sent] = []
    for message in in_order:
        headers = decode_headers(message.headers)
        is_reading = message.topic == GPU_SAMPLES and headers.record == "reading"
        if is_reading and headers.node == "node-0" and LATE_FROM_US < headers.complete_to_us <= LATE_TO_US:
            held.append(message)
            continue
        late.append(message)
        if is_reading and headers.complete_to_us >= LATE_TO_US + AWAY_US:
            late += held
            held = []
    assert not held
    return in_order, late


def _log_of(sent: list[fleet.Sent]) -> dict[str, list[LogRecord]]:
    topics: dict[str, list[LogRecord]] = {}
    for message in sent:
        records = topics.setdefault(message.topic, [])
        records.append(LogRecord(len(records), 0, message.headers, message.payload))
    return topics


def _content(row: dict[str, Any]) -> dict[str, Any]:
    passing = {"revision", "flags", *(f"d_{name}" for name in DIFFERENCES)}
    return {name: value for name, value in row.items() if name in harness.CONTENT and name not in passing}


def test_readings_half_an_hour_late_add_up_to_the_run_in_order(own_kafka: LocalKafka, tmp_path: Path) -> None:
    """Lateness 120 s, reach 1 h: the newest revisions are the rows of a run in order, their differences add up to
    them, and a worker killed between its passes publishes the same."""
    apply(own_kafka.bootstrap, partitions=1)
    in_order, late = _late_log()
    middle = len(late) * 9 // 10
    fleet.publish(own_kafka.bootstrap, late[:middle])
    reach = {"GPUMETER_WORKER_REACH_S": "3600", "GPUMETER_WORKER_INSTANCE": "slot"}
    killed = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "killed.log", **reach)
    killed.wait_for("progress committed")
    killed.kill()
    fleet.publish(own_kafka.bootstrap, late[middle:])
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "worker.log", **reach)
    published = harness.assert_publishes_all(worker, own_kafka.bootstrap)

    rows = [dict(zip(harness.CONTENT, content, strict=True)) for contents in published.values() for content in contents]
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    sums: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in sorted(rows, key=lambda r: r["revision"]):
        key = tuple(row[name] for name in KEY_COLUMNS if name != "revision")
        newest[key] = row
        total = sums.setdefault(key, dict.fromkeys(DIFFERENCES, 0))
        for name in DIFFERENCES:
            total[name] += row[f"d_{name}"]
    wanted = {
        tuple(row[name] for name in KEY_COLUMNS if name != "revision"): row
        for table in harness.metered(_log_of(in_order), 0)
        for row in table.to_pylist()
    }
    revised = {key for key, row in newest.items() if row["revision"]}
    assert {start for _, _, _, _, start in revised} == set(range(LATE_FROM_US, LATE_TO_US, MINUTE_US))
    assert all("late_reading" in newest[key]["flags"] for key in revised)
    for key, row in wanted.items():
        assert _content(newest[key]) == _content(row)
        assert sums[key] == {name: row[name] or 0 for name in DIFFERENCES}
    for key in newest.keys() - wanted.keys():
        assert newest[key]["charged_us"] == 0 and set(sums[key].values()) == {0}
