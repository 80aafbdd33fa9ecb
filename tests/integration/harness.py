"""Runs worker processes against a real Kafka and reads back what they published."""

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from infra.broker.child import spawn
from schemas.names import GPU_USAGE, INPUT_TOPICS
from schemas.usage import KEY_COLUMNS, USAGE_COLUMNS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from stream_jobs.log_records import records_of
from tests.property.drive import repairs

CONTENT = [column.name for column in USAGE_COLUMNS]
Rows = dict[tuple[Any, ...], set[tuple[Any, ...]]]
"""Key of a row to the distinct contents of all its copies."""


class WorkerProcess:
    """A `gpumeter worker` process of its own, in simulated time, with quick progress records."""

    def __init__(self, bootstrap_servers: str, log: Path, **environment: str) -> None:
        self.log = log
        settings = {
            "GPUMETER_BOOTSTRAP_SERVERS": bootstrap_servers,
            "GPUMETER_SIMULATED_TIME": "true",
            "GPUMETER_WORKER_PROGRESS_S": "0.5",
            "GPUMETER_WORKER_STEP_S": "0.1",
            "GPUMETER_WORKER_STATUS_S": "1",
        }
        before = dict(os.environ)
        os.environ.update(settings | environment)
        try:
            self.process = spawn([sys.executable, "-m", "infra.cli.main", "worker"], log=log)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; the exit code, within 20 s."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def wait_for(self, text: str, timeout_s: float = 30.0) -> None:
        """Returns when the log has `text`."""
        wait_until(lambda: text in self.log.read_text(), timeout_s, lambda: self.tail())

    def tail(self) -> str:
        """End of the log."""
        return self.log.read_text()[-4000:]


def wait_until(reached: Callable[[], bool], timeout_s: float, explain: Callable[[], str]) -> None:
    """Returns when `reached`; fails with the explanation after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < deadline, f"not reached within {timeout_s} s: {explain()}"
        time.sleep(0.1)


def read_all(bootstrap_servers: str, topics: list[str]) -> list[Message]:
    """Every message that the topics hold now, in offset order within a partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    live = consumer.list_topics(timeout=20).topics
    places = [TopicPartition(t, p, 0) for t in topics for p in live[t].partitions]
    consumer.assign(places)
    found, open_places = [], {(place.topic, place.partition) for place in places}
    while open_places:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is None:
            found.append(message)
        else:
            open_places.discard((message.topic(), message.partition()))
    consumer.close()
    return found


def published_rows(bootstrap_servers: str) -> tuple[Rows, int]:
    """All rows of gpu-usage with all copies of each, and the number of copies."""
    rows: Rows = defaultdict(set)
    copies = 0
    for message in read_all(bootstrap_servers, [GPU_USAGE]):
        copies += _collect(rows, pa.ipc.open_stream(message.value()).read_all())
    return rows, copies


def expected_rows(bootstrap_servers: str, settings: MeterSettings | None = None) -> Rows:
    """The rows that an undisturbed meter makes of what the input topics hold."""
    by_partition: dict[int, dict[str, list[LogRecord]]] = defaultdict(lambda: {topic: [] for topic in INPUT_TOPICS})
    messages = read_all(bootstrap_servers, list(INPUT_TOPICS))
    for message, record in zip(messages, records_of(messages, bootstrap_servers), strict=True):
        by_partition[message.partition()][message.topic()].append(record)
    rows: Rows = defaultdict(set)
    for partition, topics in by_partition.items():
        for table in metered(topics, partition, settings):
            _collect(rows, table)
    return rows


def metered(
    topics: dict[str, list[LogRecord]], partition: int, settings: MeterSettings | None = None
) -> Iterator[pa.Table]:
    """The tables that an undisturbed meter makes of a partition's log: first results, then revisions."""
    meter = PartitionMeter(settings or MeterSettings(simulated_time=True), Source(partition), None)
    for topic, records in topics.items():
        meter.feed(topic, records)
    while (table := meter.close_ready()) is not None:
        yield table
    yield from repairs(meter, topics)


def _collect(rows: Rows, table: pa.Table) -> int:
    for row in table.to_pylist():
        content = tuple(tuple(row[name]) if isinstance(row[name], list) else row[name] for name in CONTENT)
        rows[tuple(row[name] for name in KEY_COLUMNS)].add(content)
    return int(table.num_rows)


def assert_equal_rows(published: Rows, expected: Rows) -> None:
    """Fails unless every expected row is there, none else, and no two copies of a row differ."""
    assert expected
    differing = {key: contents for key, contents in published.items() if len(contents) != 1}
    assert not differing, f"{len(differing)} rows have copies that differ, first: {next(iter(differing.items()))}"
    assert published.keys() == expected.keys()
    wrong = [key for key in expected if published[key] != expected[key]]
    assert not wrong, f"{len(wrong)} rows differ from an undisturbed run, first: {wrong[0]}"


def assert_publishes_all(worker: WorkerProcess, bootstrap_servers: str) -> Rows:
    """Waits until a worker has published every expected row, ends it, and fails unless all are equal; the rows."""
    expected = expected_rows(bootstrap_servers)
    wait_until(lambda: published_rows(bootstrap_servers)[0].keys() >= expected.keys(), 60, worker.tail)
    published, _ = published_rows(bootstrap_servers)
    assert worker.terminate() == 0, worker.tail()
    assert_equal_rows(published, expected)
    return published
