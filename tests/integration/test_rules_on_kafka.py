"""Rules of windows told on a real Kafka: which count, and that a running worker takes them up."""

import asyncio
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply
from infra.cli.rules import app
from stream_jobs import rules
from stream_jobs.core.settings import MeterSettings
from stream_jobs.log import logger
from stream_jobs.rules import Rules
from tests.integration import harness

pytestmark = pytest.mark.needs_broker


def _change(bootstrap: str, at_s: int, *more: str) -> tuple[int, str]:
    effective = datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    arguments = ["change", "--effective", effective, "--bootstrap-servers", bootstrap, *more]
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


def test_rule_is_told_listed_and_taken_up(
    own_kafka: LocalKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `rules change` tells, `rules list` shows and workers read; one that comes too late is not even told."""
    apply(own_kafka.bootstrap, partitions=1)
    monkeypatch.setattr(rules, "_LOOK_S", 0.0)
    known = Rules(own_kafka.bootstrap, MeterSettings(), logger("test"))
    assert asyncio.run(known.look()) is False
    soon, later = (int(time.time()) + seconds for seconds in (60, 7200))
    code, text = _change(own_kafka.bootstrap, soon // 60 * 60, "--window", "30", "--lateness", "60")
    assert code == 1 and "at least 600 s before" in text
    at_s = later // 60 * 60
    code, text = _change(own_kafka.bootstrap, at_s, "--window", "30", "--lateness", "60", "--note", "why not")
    assert code == 0, text
    shown = CliRunner().invoke(app, ["list", "--bootstrap-servers", own_kafka.bootstrap, "--json"])
    listed = json.loads(shown.stdout)
    assert [(r["window_s"], r["lateness_s"]) for r in listed["rules"]] == [(60, 120), (30, 60)]
    assert asyncio.run(known.look()) is True
    assert [(c.effective_us, c.window_us) for c in known.settings.changes] == [(at_s * 1_000_000, 30_000_000)]
    assert asyncio.run(known.look()) is False
    worker = harness.WorkerProcess(own_kafka.bootstrap, tmp_path / "worker.log")
    worker.wait_for("rules of windows")
    assert worker.terminate() == 0, worker.tail()
