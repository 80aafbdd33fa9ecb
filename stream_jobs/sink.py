"""The sink: gpu-usage into the ledger, in blocks of many messages; what can never be a row into dead-letters.

Knows messages, the ledger and the order of effects: rows inserted, dead letters acknowledged, then progress in the
ledger, then the commit. So a sink that dies at any point reads some messages again, and their rows replace nothing
(tests/integration/test_sink.py kills it). ClickHouse or broker away: it waits and tries again, reading nothing more.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from . import log
from .clock import monotonic_s
from .core.contents import LogRecord
from .core.meter import Refused
from .deadletters import letter_of
from .errors import DeadLetter, Retry, Stop
from .ledger import Ledger, LedgerError
from .publish import Outgoing
from .sink_figures import RUNNING, SinkView
from .usage_rows import UsageMessage, decode_usage, together

TABLE, PROGRESS = "usage_ledger", "sink_progress"
_VIOLATED_CONSTRAINT = 469
_LONGEST_READ_S = 0.2
_LOG = log.logger("sink")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """How the sink gathers and waits."""

    topic: str = "gpu-usage"
    topic_id: str
    flush_rows: int = 50_000
    flush_s: float = 0.5
    read_messages: int = 500
    backoff_s: float = 0.5
    backoff_max_s: float = 30.0


class Reader(Protocol):
    """What the sink needs of usage_reader.UsageReader."""

    trouble: str

    def ends(self) -> dict[int, int]:
        """Next offset of each partition's log, where it is known."""

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        """Messages that came within `wait_s`."""

    def commit(self, next_offsets: Mapping[int, int], report: Callable[[str], None]) -> None:
        """Shows the offsets to Kafka."""


class Letters(Protocol):
    """What the sink needs of publish.Publisher."""

    def send(self, message: Outgoing) -> None:
        """Queues a message."""

    def flush(self) -> None:
        """Returns when all is acknowledged; else Retry."""


def next_offsets(ledger: Ledger, topic: str, topic_id: str) -> dict[int, int]:
    """Up to where each partition of this very topic is in the ledger."""
    rows = ledger.query(
        f"SELECT partition, max(next_offset) FROM {PROGRESS} "
        "WHERE topic = {topic:String} AND topic_id = {topic_id:String} GROUP BY partition",
        {"topic": topic, "topic_id": topic_id},
    )
    return {int(partition): int(offset) for partition, offset in rows}


class Sink:
    """One run of the sink, until `stop` is set; `status` may be asked from another thread."""

    def __init__(self, reader: Reader, ledger: Ledger, letters: Letters, settings: SinkSettings) -> None:
        self._reader, self._ledger, self._letters, self._settings = reader, ledger, letters, settings
        self._token = uuid.uuid4().hex
        self._messages: list[UsageMessage] = []
        self._tables: list[pa.Table] = []
        self._refused: list[tuple[UsageMessage, DeadLetter]] = []
        self._gathered_rows = 0
        self._first_s = 0.0
        self._done: dict[int, int] = {}
        self._counts = {"rows": 0, "messages": 0, "dead_letters": 0, "retries": 0}
        self._letter_counts: Counter[str] = Counter()
        self._append_us: dict[int, int] = {}
        self._state = "starting"
        self.turned_s = monotonic_s()
        """When its loop last turned."""

    def begin(self, starts: Mapping[int, int]) -> None:
        """Notes where each partition begins."""
        self._done = dict(starts)

    def status(self) -> dict[str, Any]:
        """How far the ledger is: `next_offsets` by partition are those whose rows and dead letters are safe."""
        offsets = {str(partition): offset for partition, offset in sorted(self._done.items())}
        return {
            "state": self._state,
            "topic": self._settings.topic,
            "topic_id": self._settings.topic_id,
            "next_offsets": offsets,
            **self._counts,
            "broker": self._reader.trouble or "ok",
        }

    def view(self) -> SinkView:
        """How it stands, for its figures."""
        return SinkView(
            state=self._state,
            counts=dict(self._counts),
            letters=dict(self._letter_counts),
            done=self._done,
            ends=self._reader.ends(),
            append_us=self._append_us,
            buffered=len(self._messages),
            broker_trouble=self._reader.trouble,
        )

    def run(self, stop: threading.Event) -> None:
        """Reads and inserts until `stop`; then inserts what it has. Retry if the outside is away at the end."""
        self._state = RUNNING
        while not stop.is_set():
            self.turned_s = monotonic_s()
            messages = self._reader.read(self._settings.read_messages, min(self._settings.flush_s / 5, _LONGEST_READ_S))
            self._gather(messages)
            if self._is_due():
                self._flush_patiently(stop)
        self._flush()
        self._state = "stopped"

    def _gather(self, messages: Sequence[UsageMessage]) -> None:
        if messages and not self._messages:
            self._first_s = monotonic_s()
        for message in messages:
            self._messages.append(message)
            try:
                table = decode_usage(message)
            except DeadLetter as error:
                self._refused.append((message, error))
            else:
                self._tables += [table] if table.num_rows else []
                self._gathered_rows += table.num_rows

    def _is_due(self) -> bool:
        full = self._gathered_rows >= self._settings.flush_rows
        return bool(self._messages) and (full or monotonic_s() - self._first_s >= self._settings.flush_s)

    def _flush_patiently(self, stop: threading.Event) -> None:
        wait_s = self._settings.backoff_s
        while True:
            self.turned_s = monotonic_s()
            try:
                self._flush()
            except Retry as error:
                self._counts["retries"] += 1
                self._state = f"waiting: {error}"
                _LOG.warning("waiting", reason=str(error), again_in_s=wait_s, messages=len(self._messages))
                if stop.wait(wait_s):
                    return
                wait_s = min(2 * wait_s, self._settings.backoff_max_s)
            else:
                self._state = RUNNING
                return

    def _flush(self) -> None:
        """Rows, dead letters, progress, commit; what is done is not done again by the next try."""
        if not self._messages:
            return
        self._insert()
        self._send_letters()
        reached = {message.partition: message.offset + 1 for message in self._messages}
        self._write_progress(reached)
        self._counts["messages"] += len(self._messages)
        self._append_us = self._append_us | {message.partition: message.append_us for message in self._messages}
        self._messages = []
        self._done = {**self._done, **reached}
        self._reader.commit(reached, lambda text: _LOG.warning("commit", reason=text))

    def _insert(self) -> None:
        """All rows as one block; where that breaks a constraint, message by message, the breaking ones refused."""
        if self._tables and self._put(together(self._tables), self._name_of(self._tables)) is not None:
            by_place = {(message.partition, message.offset): message for message in self._messages}
            while self._tables:
                table = self._tables[0]
                refusal = self._put(table, self._name_of([table]))
                if refusal is not None:
                    self._refused.append((by_place[_place_of(table)], refusal))
                self._tables.pop(0)
        self._tables, self._gathered_rows = [], 0

    def _put(self, rows: pa.Table, token: str) -> DeadLetter | None:
        """Inserts a block; a dead letter where a row breaks a constraint of the table; Stop where all would fail."""
        try:
            self._ledger.insert_arrow(TABLE, rows, token)
        except LedgerError as error:
            if error.code == _VIOLATED_CONSTRAINT:
                return DeadLetter("constraint", str(error))
            raise Stop(
                f"ClickHouse at {self._ledger.place} refuses rows of {TABLE}: {error}. Nothing was committed. If its "
                "tables are of another version, run `gpumeter migrate`"
            ) from error
        self._counts["rows"] += rows.num_rows
        return None

    def _send_letters(self) -> None:
        for message, error in self._refused:
            record = LogRecord(message.offset, message.append_us, message.headers, message.payload)
            refused = Refused(message.topic, message.offset, error.reason, error.detail, record)
            self._letters.send(letter_of(refused, message.partition))
            _LOG.warning("dead letter", partition=message.partition, offset=message.offset, reason=str(error))
        self._letters.flush()
        self._counts["dead_letters"] += len(self._refused)
        self._letter_counts.update(error.reason for _, error in self._refused)
        self._refused = []

    def _write_progress(self, reached: Mapping[int, int]) -> None:
        settings, count = self._settings, len(reached)
        rows = pa.table(
            {
                "topic": pa.array([settings.topic] * count),
                "topic_id": pa.array([settings.topic_id] * count),
                "partition": pa.array(list(reached), pa.int32()),
                "next_offset": pa.array(list(reached.values()), pa.uint64()),
            }
        )
        self._ledger.insert_arrow(PROGRESS, rows, f"{self._token}:progress:{sorted(reached.items())}")

    def _name_of(self, tables: Sequence[pa.Table]) -> str:
        """Deduplication token of a block: its messages, in this process; a later replay is the key's to absorb."""
        first, last = _place_of(tables[0]), _place_of(tables[-1])
        return f"{self._token}:{first}:{last}:{len(tables)}"


def _place_of(table: pa.Table) -> tuple[int, int]:
    return int(table["out_partition"][0].as_py()), int(table["out_offset"][0].as_py())
