"""The sink's order of effects, with every outside failing at every point."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from stream_jobs.errors import Retry, Stop
from stream_jobs.ledger import LedgerError
from stream_jobs.publish import Outgoing
from stream_jobs.sink import PROGRESS, TABLE, Sink, SinkSettings
from stream_jobs.usage_rows import UsageMessage
from tests.ledger_rows import message, pod, row


class _Outside:
    """Reader, ledger and letters in one, in memory; notes every effect and fails where `fail` says."""

    place = "memory"
    trouble = ""

    def __init__(self, messages: Sequence[UsageMessage], stop: threading.Event, fail: Callable[[str], None]) -> None:
        self._messages, self._stop, self._fail = list(messages), stop, fail
        self.effects: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.committed: dict[int, int] = {}

    def ends(self) -> dict[int, int]:
        """Nobody told."""
        return {}

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        """All messages at once, then nothing; the second empty read stops the sink."""
        found, self._messages = self._messages[:most], self._messages[most:]
        if not found:
            self._stop.set()
        return found

    def insert_arrow(self, table: str, rows: pa.Table, token: str) -> None:
        """Keeps the rows."""
        self._do("rows" if table == TABLE else "progress")
        if table == TABLE and 0 in rows["window_start_us"].to_pylist():
            raise LedgerError("Constraint window_is_a_time is violated", 469)
        self.tokens.append(token)
        if table == TABLE:
            self.rows += rows.to_pylist()
        else:
            assert table == PROGRESS

    def send(self, message: Outgoing) -> None:
        """Notes a letter."""
        self._do("letter")

    def flush(self) -> None:
        """Notes that letters were acknowledged."""
        self._do("acknowledged")

    def commit(self, next_offsets: Mapping[int, int], report: Callable[[str], None]) -> None:
        """Notes the commit."""
        self._do("commit")
        self.committed = dict(next_offsets)

    def _do(self, effect: str) -> None:
        self._fail(effect)
        self.effects.append(effect)


BAD = UsageMessage("gpu-usage", 0, 1, 0, [], b"garbage")
MESSAGES = [message([row(0), pod("a", 0)], 0), BAD, message([row(1)], 2), message([pod("b")], 5, partition=1)]


def _run(messages: Sequence[UsageMessage], fail: Callable[[str], None] = lambda effect: None) -> tuple[_Outside, Sink]:
    stop = threading.Event()
    outside = _Outside(messages, stop, fail)
    settings = SinkSettings(topic_id="t", flush_s=0.0, backoff_s=0.001, backoff_max_s=0.002)
    sink = Sink(outside, outside, outside, settings)  # type: ignore[arg-type]
    sink.begin({0: 0, 1: 5, 2: 9})
    sink.run(stop)
    return outside, sink


def _fails_once(at: str) -> Callable[[str], None]:
    left = [1]

    def fail(effect: str) -> None:
        if effect == at and left[0]:
            left[0] -= 1
            raise Retry(f"{at} is away")

    return fail


def test_sink_inserts_then_letters_then_progress_then_commit() -> None:
    """Rows, then acknowledged dead letters, then progress, then the commit; status tells what is safe."""
    outside, sink = _run(MESSAGES)
    assert outside.effects == ["rows", "letter", "acknowledged", "progress", "commit"]
    assert outside.committed == {0: 3, 1: 6}
    status = sink.status()
    assert status["next_offsets"] == {"0": 3, "1": 6, "2": 9}
    assert (status["rows"], status["dead_letters"], status["messages"], status["state"]) == (4, 1, 4, "stopped")


@pytest.mark.parametrize("at", ["rows", "letter", "acknowledged", "progress"])
def test_field_case_69_sink_tries_again_without_doubling(at: str) -> None:
    """An outside that is away once, at any step: the same rows once, progress only after all before it."""
    outside, sink = _run(MESSAGES, _fails_once(at))
    assert len(outside.rows) == 4
    assert outside.effects[-2:] == ["progress", "commit"]
    assert outside.effects.count("progress") == 1
    assert outside.effects.index("acknowledged") < outside.effects.index("progress")
    assert sink.status()["retries"] == 1


def test_sink_ends_with_retry_when_the_ledger_stays_away() -> None:
    """Told to stop while ClickHouse is away, it ends with Retry and has passed no offset."""
    stop = threading.Event()

    def away(effect: str) -> None:
        stop.set()
        raise Retry("away")

    outside = _Outside(MESSAGES, stop, away)
    sink = Sink(outside, outside, outside, SinkSettings(topic_id="t", flush_s=0.0))  # type: ignore[arg-type]
    with pytest.raises(Retry):
        sink.run(stop)
    assert outside.committed == {}
    assert sink.status()["next_offsets"] == {}


def test_sink_finds_the_message_that_breaks_a_constraint() -> None:
    """One message with an impossible row is refused; the others of its block are rows."""
    bad = message([row(window_start_us=0, window_end_us=1)], 1)
    outside, sink = _run([message([row(0)], 0), bad, message([row(1)], 2)])
    assert [each["out_offset"] for each in outside.rows] == [0, 2]
    assert (sink.status()["dead_letters"], sink.status()["rows"]) == (1, 2)
    assert outside.committed == {0: 3}


def test_sink_stops_where_the_table_is_wrong() -> None:
    """A refusal that no single row explains stops the sink: nothing is made a dead letter, nothing passed."""

    def wrong(effect: str) -> None:
        if effect == "rows":
            raise LedgerError("No such column used_us", 16)

    with pytest.raises(Stop, match="gpumeter migrate"):
        _run(MESSAGES, wrong)


def test_sink_names_blocks_differently_in_each_process() -> None:
    """Deduplication tokens cover retries within a process only: a replay after rows were removed is not dropped."""
    first, _ = _run(MESSAGES)
    second, _ = _run(MESSAGES)
    assert not set(first.tokens) & set(second.tokens)
