"""Sink processes over a real broker, and what tests ask of them."""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from infra.broker.child import spawn
from infra.front.place import live_front, status_of
from schemas.names import DEAD_LETTERS, GPU_USAGE
from schemas.usage import USAGE_COLUMNS
from stream_jobs.ledger import open_ledger
from stream_jobs.publish import Outgoing, Publisher
from tests.integration.harness import wait_until
from tests.ledger_rows import headers, payload, pod, row

CONTENT = ", ".join(column.name for column in USAGE_COLUMNS)


class SinkProcess:
    """A `gpumeter sink` process over a directory."""

    def __init__(self, bootstrap: str, directory: Path, *options: str) -> None:
        self.directory = directory
        self.log = directory.parent / f"sink-{time.monotonic_ns()}.log"
        argv = [sys.executable, "-m", "infra.cli.main", "sink", "--bootstrap-servers", bootstrap]
        self.process = spawn([*argv, "--directory", str(directory), "--flush-s", "0.05", *options], log=self.log)

    def status(self) -> dict[str, Any]:
        """What it says it has done; empty while it does not answer."""
        url = live_front(self.directory)
        return (status_of(url) if url else None) or {}

    def wait_for_offsets(self, wanted: dict[str, int], timeout_s: float = 40.0) -> None:
        """Returns when the ledger has everything below the offsets."""
        wait_until(
            lambda: self.status().get("next_offsets") == wanted, timeout_s, lambda: f"{self.status()} {self.text()}"
        )

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def text(self) -> str:
        """Its log."""
        return self.log.read_text()


def drop(broker: str) -> None:
    """Deletes the topics of the sink."""
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.delete_topics([GPU_USAGE, DEAD_LETTERS], operation_timeout=20).values():
        future.result(20)
    wait_until(lambda: not {GPU_USAGE, DEAD_LETTERS} & admin.list_topics(timeout=10).topics.keys(), 20, str)


def publish(bootstrap: str, messages: Sequence[tuple[int, list[tuple[str, bytes]], bytes]], pause_s: float = 0) -> None:
    """Sends messages to gpu-usage, acknowledged."""
    publisher = Publisher(bootstrap, "test")
    for partition, head, body in messages:
        publisher.send(Outgoing(GPU_USAGE, partition, b"c1/n1", head, body))
        if pause_s:
            time.sleep(pause_s)
    publisher.flush()


def usage(count: int, first: int = 0) -> list[tuple[int, list[tuple[str, bytes]], bytes]]:
    """`count` messages over two partitions, each a window of a GPU with three holders."""
    found = []
    for number in range(first, first + count):
        gpu = {"gpu_uuid": f"GPU-{number % 2}"}
        rows = [
            pod("a", number, charged_us=20_000_000, used_us=number, flags=["x"], **gpu),
            pod("b", number, charged_us=30_000_000, used_us=None, **gpu),
            row(number, charged_us=10_000_000, **gpu),
        ]
        found.append((number % 2, headers(), payload(rows)))
    return found


def ask(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    """Answer of a closed ledger."""
    opened = open_ledger(directory=directory, read_only=True)
    try:
        return opened.query(sql)
    finally:
        opened.close()


def content(directory: Path) -> list[tuple[Any, ...]]:
    """Every row of a closed ledger in one order."""
    return ask(directory, f"SELECT {CONTENT}, out_partition, out_offset FROM usage_ledger FINAL ORDER BY ALL")
