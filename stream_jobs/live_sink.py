"""Provisional figures from gpu-live into usage_live, in a thread beside the sink: from the topic's end, and lossy.

Nothing waits for it: what ClickHouse does not take at once is dropped and counted, so that it never shows the past.
Laws: it writes no other table, commits nothing, and the sink goes on whatever becomes of it
(tests/unit/stream_jobs/test_live_sink.py, tests/integration/test_live_on_kafka.py).
"""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from schemas.headers import LIVE

from . import log
from .clock import monotonic_s
from .core.live import LIVE_SCHEMA
from .errors import DeadLetter, Retry
from .ledger import LedgerError
from .usage_rows import UsageMessage, decode_rows, together

TABLE = "usage_live"
_READ_MESSAGES, _READ_S = 500, 0.1
_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
_LOG = log.logger("live")


class LiveReader(Protocol):
    """What it needs of usage_reader.UsageReader."""

    def start_at_end(self) -> None:
        """Begins behind everything that is there."""

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        """Messages that came within `wait_s`."""


class LiveLedger(Protocol):
    """What it needs of ledger.Ledger."""

    def insert_arrow(self, table: str, rows: pa.Table, token: str) -> None:
        """Inserts rows as one block."""

    def close(self) -> None:
        """Lets go of the connection."""


@dataclass(slots=True)
class LiveCounts:
    """Rows inserted and rows or messages that were dropped; `running` until it gave up."""

    rows: int = 0
    dropped: int = 0
    running: bool = False


class LiveSink:
    """Inserts what comes until `stop`; what goes wrong is told in the log and in `counts`, and tried anew."""

    def __init__(
        self,
        reader: LiveReader,
        open_ledger: Callable[[], LiveLedger],
        *,
        flush_s: float = 0.5,
        wait_s: float = _WAIT_S,
    ) -> None:
        self._reader, self._open, self._flush_s, self._wait_s = reader, open_ledger, flush_s, wait_s
        self._token = uuid.uuid4().hex
        self.counts = LiveCounts()

    def start(self, stop: threading.Event) -> threading.Thread:
        """Runs in a thread of its own, which ends with the process."""
        thread = threading.Thread(target=self._guard, args=(stop,), name="live", daemon=True)
        thread.start()
        return thread

    def run(self, stop: threading.Event) -> None:
        """Reads and inserts until `stop`; waits longer each time broker or ClickHouse is away, at most 30 s."""
        wait_s = self._wait_s
        while not stop.is_set():
            try:
                self._reader.start_at_end()
                ledger = self._open()
                try:
                    wait_s = self._wait_s
                    self._insert_all(ledger, stop)
                finally:
                    ledger.close()
            except (Retry, LedgerError) as error:
                _LOG.warning("provisional figures wait", reason=str(error), again_in_s=wait_s)
                stop.wait(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _guard(self, stop: threading.Event) -> None:
        self.counts.running = True
        try:
            self.run(stop)
        except Exception as error:  # noqa: BLE001 a defect here must not end the sink, which has the rows that count
            _LOG.error("provisional figures ended", reason=f"{type(error).__name__}: {error}", exc_info=error)
        finally:
            self.counts.running = False

    def _insert_all(self, ledger: LiveLedger, stop: threading.Event) -> None:
        tables: list[pa.Table] = []
        first_s, number = 0.0, 0
        while not stop.is_set():
            found = self._decoded(self._reader.read(_READ_MESSAGES, _READ_S))
            first_s = first_s if tables else monotonic_s()
            tables += found
            if tables and monotonic_s() - first_s >= self._flush_s:
                block, tables, number = together(tables), [], number + 1
                self._insert(ledger, block, f"{self._token}:{number}")

    def _insert(self, ledger: LiveLedger, block: pa.Table, token: str) -> None:
        try:
            ledger.insert_arrow(TABLE, block, token)
        except (Retry, LedgerError):
            self.counts.dropped += block.num_rows
            raise
        self.counts.rows += block.num_rows

    def _decoded(self, messages: list[UsageMessage]) -> list[pa.Table]:
        tables = []
        for message in messages:
            try:
                tables.append(decode_rows(message, LIVE, LIVE_SCHEMA))
            except DeadLetter as error:
                self.counts.dropped += 1
                _LOG.warning("provisional rows refused", offset=message.offset, reason=str(error))
        return [table for table in tables if table.num_rows]
