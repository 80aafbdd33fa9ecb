"""`gpumeter topics` on a real Apache Kafka."""

import json
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from infra.broker.kafka import LocalKafka
from infra.broker.topics import apply, compare
from schemas.names import ALL_TOPICS, GPU_SAMPLES

pytestmark = pytest.mark.needs_broker


def _topics(*arguments: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "infra.cli.main", "topics", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else done.stderr


def test_topics_apply_then_diff_is_empty(own_kafka: LocalKafka) -> None:
    """apply makes what is missing; afterwards diff finds nothing; a grown partition count is named and refused."""
    servers = ["--bootstrap-servers", own_kafka.bootstrap, "--partitions", "2"]
    code, missing = _topics("diff", *servers)
    assert (code, [change["topic"] for change in missing]) == (1, list(ALL_TOPICS))
    code, made = _topics("apply", *servers)
    assert (code, {change["kind"] for change in made}) == (0, {"created"})
    assert _topics("diff", *servers) == (0, [])
    assert apply(own_kafka.bootstrap, partitions=2) == []

    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    admin.create_partitions([NewPartitions(GPU_SAMPLES, 3)])[GPU_SAMPLES].result(20)
    code, differing = _topics("diff", *servers)
    assert code == 1
    assert [change["topic"] for change in differing] == [GPU_SAMPLES]
    code, refused = _topics("apply", *servers)
    assert code == 1
    assert "has 3 partitions, wanted 2" in refused[0]["text"]
    assert compare(own_kafka.bootstrap, partitions=2)[0].kind == "refused"


def test_topics_without_broker_exit_3() -> None:
    """A broker that is away is exit code 3 and a sentence that names it."""
    code, text = _topics("diff", "--bootstrap-servers", "127.0.0.1:1")
    assert code == 3
    assert "127.0.0.1:1 does not answer" in text
