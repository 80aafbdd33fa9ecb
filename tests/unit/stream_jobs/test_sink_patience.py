"""How long the sink waits for ClickHouse: as long as it takes, reading nothing more and passing nothing meanwhile."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from schemas.health import LONGEST_TURN_S
from stream_jobs import sink as subject
from stream_jobs.errors import Retry
from stream_jobs.ledger import OUTSIDE_CODES, Ledger, LedgerError
from stream_jobs.publish import Outgoing
from stream_jobs.sink import PROGRESS, TABLE, Sink, SinkSettings
from stream_jobs.usage_rows import UsageMessage
from tests.ledger_rows import message, row


class _Time(threading.Event):
    """The stop event of a sink, whose waits move a simulated clock instead of passing."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Time passes at once."""
        assert timeout is not None
        self.waits.append(timeout)
        self.now_s += timeout
        return self.is_set()


class _Outside:
    """Reader and ledger: a message at each read; ClickHouse is away from the first second until `back_s`."""

    place, trouble = "memory", ""

    def __init__(self, time: _Time, back_s: float, messages: int) -> None:
        self._time, self._back_s, self._left, self._next = time, back_s, messages, 0
        self.rows: list[dict[str, Any]] = []
        self.committed: dict[int, int] = {}
        self.reads_while_away = 0
        self.turned: list[float] = []

    def ends(self) -> dict[int, int]:
        return {}

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        self._time.now_s += 0.5
        self.reads_while_away += 2.0 < self._time.now_s < self._back_s
        if not self._left:
            self._time.set()
            return []
        self._left, self._next = self._left - 1, self._next + 1
        return [message([row(self._next)], self._next - 1)]

    def insert_arrow(self, table: str, rows: pa.Table, token: str) -> None:
        self.turned.append(self._time.now_s)
        if self._time.now_s < self._back_s:
            raise Retry("ClickHouse is away")
        if table == TABLE:
            self.rows += rows.to_pylist()
        else:
            assert table == PROGRESS

    def commit(self, next_offsets: Mapping[int, int], report: Callable[[str], None]) -> None:
        assert self._time.now_s >= self._back_s
        self.committed |= next_offsets

    def send(self, message: Outgoing) -> None:
        """No letter is written here."""

    def flush(self) -> None:
        """Nothing to wait for."""


@pytest.mark.parametrize("away_s", [600.0, 86_400.0])
def test_sink_outwaits_any_absence(monkeypatch: pytest.MonkeyPatch, away_s: float) -> None:
    """ClickHouse away for 10 minutes, and for a day: the sink still tries, at least every 30 s, reads nothing more
    meanwhile, commits nothing, and then every row arrives once."""
    time = _Time()
    monkeypatch.setattr(subject, "monotonic_s", lambda: time.now_s)
    outside = _Outside(time, away_s, messages=5)
    settings = SinkSettings(topic_id="t", flush_s=0.1)
    sink = Sink(outside, outside, outside, settings)  # type: ignore[arg-type]
    sink.run(time)
    assert [each["out_offset"] for each in outside.rows] == [0, 1, 2, 3, 4]
    assert outside.committed == {0: 5}
    assert outside.reads_while_away <= 1
    assert max(time.waits) == settings.backoff_max_s < LONGEST_TURN_S
    assert len(time.waits) >= away_s / settings.backoff_max_s - 1
    assert time.now_s - away_s < settings.backoff_max_s + 5


class _Client:
    """A client of ClickHouse that fails as told."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def insert_arrow(self, *given: Any, **settings: Any) -> None:
        raise self._error


def _insert(error: Exception) -> None:
    Ledger(_Client(error), "here").insert_arrow(TABLE, pa.table({"a": [1]}), "t")  # type: ignore[arg-type]


@pytest.mark.parametrize("code", sorted(OUTSIDE_CODES))
def test_code_of_an_outside_trouble_is_a_retry(code: int) -> None:
    """Each code that says the server, its disk, memory, network or Keeper cannot now is a reason to wait."""
    with pytest.raises(Retry, match="the call can be repeated"):
        _insert(DatabaseError(f"Code: {code}. DB::Exception: no", code=code))


@pytest.mark.parametrize("code", [16, 27, 44, 53, 60, 62, 81, 469, 497, 516])
def test_code_of_a_wrong_statement_is_no_retry(code: int) -> None:
    """A code that says the statement, the rows or the rights are wrong is told with its number: no wait mends it."""
    with pytest.raises(LedgerError) as refused:
        _insert(DatabaseError(f"Code: {code}. DB::Exception: no", code=code))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (OperationalError("Network Error"), True),
        (DatabaseError("HTTP driver received HTTP status 502, server response: <html>"), True),
        (DatabaseError("HTTP driver received HTTP status 500"), True),
        (DatabaseError("HTTP driver received HTTP status 408"), True),
        (DatabaseError("HTTP driver received HTTP status 404, server response: no"), False),
        (DatabaseError("HTTP driver received HTTP status 401"), False),
        (DatabaseError("Code: 16. DB::Exception: HTTP driver received HTTP status 502", code=16), False),
    ],
)
def test_answer_without_a_code_is_a_retry_where_something_in_between_gave_it(error: Exception, waits: bool) -> None:
    """A balancer's 5xx or 408, and a broken connection, are waited for; its 4xx, and ClickHouse's own word, are not."""
    with pytest.raises(Retry if waits else LedgerError):
        _insert(error)
