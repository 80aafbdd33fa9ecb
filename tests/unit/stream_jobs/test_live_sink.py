"""The live sink: rows in, losses counted, and nothing that goes wrong ends it or holds it up."""

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from stream_jobs.errors import Retry
from stream_jobs.ledger import LedgerError
from stream_jobs.live_sink import TABLE, LiveSink
from stream_jobs.usage_rows import UsageMessage
from tests.ledger_rows import live, live_message, message, pod, row


class _Outside:
    """Reader and ledger in memory; `plan` is what each read gives: messages, or an error to raise."""

    def __init__(self, plan: list[Any], stop: threading.Event) -> None:
        self._plan, self._stop = plan, stop
        self.effects: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.refuse: Exception | None = None

    def start_at_end(self) -> None:
        self.effects.append("start")

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        if not self._plan:
            self._stop.set()
            return []
        step = self._plan.pop(0)
        if isinstance(step, Exception):
            raise step
        if callable(step):
            step(self)
            return []
        return list(step)

    def insert_arrow(self, table: str, rows: pa.Table, token: str) -> None:
        assert table == TABLE
        self.effects.append("insert")
        if self.refuse is not None:
            raise self.refuse
        self.rows += rows.to_pylist()

    def close(self) -> None:
        self.effects.append("close")


def _run(plan: list[Any]) -> tuple[_Outside, LiveSink]:
    stop = threading.Event()
    outside = _Outside(plan, stop)
    sink = LiveSink(outside, lambda: outside, flush_s=0.0, wait_s=0.001)
    sink.start(stop).join(10)
    assert not sink.counts.running
    return outside, sink


def _message(window: int) -> UsageMessage:
    return live_message([live(pod("a", window), 5), live(row(window), 5)], window)


def _refuse(error: Exception | None) -> Callable[[_Outside], None]:
    return lambda outside: setattr(outside, "refuse", error)


def test_live_sink_inserts_what_comes() -> None:
    """All rows of all messages, from the topic's end on, and the connection is let go."""
    outside, sink = _run([[_message(0), _message(1)], [_message(2)]])
    assert [each["window_start_us"] for each in outside.rows] == [
        each["window_start_us"] for n in range(3) for each in (row(n), row(n))
    ]
    assert (outside.effects[0], outside.effects[-1]) == ("start", "close")
    assert (sink.counts.rows, sink.counts.dropped) == (6, 0)


def test_live_sink_drops_what_the_ledger_does_not_take() -> None:
    """ClickHouse away or refusing: the rows are dropped and counted, it begins anew at the end, later rows arrive."""
    for error in (Retry("away"), LedgerError("no table", 60)):
        outside, sink = _run([_refuse(error), [_message(0)], _refuse(None), [_message(1)]])
        assert {each["window_start_us"] for each in outside.rows} == {row(1)["window_start_us"]}
        assert outside.effects == ["start", "insert", "close", "start", "insert", "close"]
        assert (sink.counts.rows, sink.counts.dropped) == (2, 2)


def test_live_sink_passes_over_what_is_no_live_row() -> None:
    """Garbage and rows of another topic are counted and passed over; what is around them arrives."""
    garbage = UsageMessage("gpu-live", 0, 7, 0, [], b"garbage")
    outside, sink = _run([[_message(0), garbage, message([row(0)]), _message(1)]])
    assert len(outside.rows) == 4
    assert sink.counts.dropped == 2


def test_live_sink_waits_for_the_broker_and_ends_alone_by_a_defect() -> None:
    """A broker that is away is asked again; an error nobody thought of ends this thread only, and `running` says so."""
    outside, _ = _run([Retry("broker away"), [_message(0)]])
    assert len(outside.rows) == 2
    outside, _ = _run([RuntimeError("a defect"), [_message(0)]])
    assert outside.rows == []
