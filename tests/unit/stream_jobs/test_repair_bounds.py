"""Repair passes are bounded: what one keeps, and what one step of a round reads."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from schemas.headers import decode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from stream_jobs.core import gathered, repair, repairs
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.settings import MeterSettings
from stream_jobs.lane import Lane, LogGoneError, Received, open_lane
from tests.integration import fleet

MINUTE_US = 60_000_000
SLICE = 50
SETTINGS = MeterSettings(simulated_time=True, reach_back_us=5 * MINUTE_US)
LATE_MINUTES = 2
Log = dict[str, list[LogRecord]]


def _sent(others: int, ahead: int) -> Iterator[fleet.Sent]:
    """A log in which two minutes of node-0 come late, for windows that another node's clock met `ahead` minutes before.

    So what those windows need of gpu-samples is a range that is as long as that clock is ahead.
    """
    from_us = fleet.START_US + (ahead + 3) * MINUTE_US
    to_us, held = from_us + LATE_MINUTES * MINUTE_US, []
    hasty, newest = fleet.Node(99, 1), 0
    for message in fleet.messages(1 + others, ahead + 12, 1):
        headers = decode_headers(message.headers)
        now_us = headers.complete_to_us
        is_own = message.topic == GPU_SAMPLES and headers.node == "node-0"
        if is_own and from_us < now_us <= to_us:
            held.append(message)
            continue
        yield message
        if is_own and now_us > newest:
            newest = now_us
            yield hasty.reading(now_us + ahead * MINUTE_US)
        if held and now_us > to_us + 5 * MINUTE_US:
            yield from held
            held = []


def _log(others: int, ahead: int) -> Log:
    log: Log = {topic: [] for topic in INPUT_TOPICS}
    for sent in _sent(others, ahead):
        records = log[sent.topic]
        records.append(LogRecord(len(records), 0, sent.headers, sent.payload))
    return log


def _lane(log: Log) -> Lane:
    lane = open_lane(0, 1, SETTINGS, "id", dict.fromkeys(INPUT_TOPICS, 0))
    assert not lane.feed([Received(topic, 0, 1, record) for topic, records in log.items() for record in records])
    assert list(lane.closed())
    return lane


class _Reader:
    """Gives a log in slices, and notes how much was read."""

    def __init__(self, log: Log) -> None:
        self.log, self.read = log, 0

    def __call__(self, _: int, topic: str, first: int, last: int) -> tuple[list[LogRecord], int]:
        to = min(last, first + SLICE)
        self.read += to - first
        return self.log[topic][first:to], to


def _steps(lane: Lane, log: Log) -> tuple[list[tuple[int, int]], list[int], list[dict]]:
    """What was kept after each step (records, bytes), how many records each step read, and the rows of all."""
    kept, steps, rows = [], [], []
    while lane.meter.repairs.is_due():
        reader, asked = _Reader(log), iter([False])
        for table in lane.revised(reader, lambda asked=asked: next(asked, True)):
            rows += table.to_pylist()
        kept.append(lane.meter.repairs.gathered())
        steps.append(reader.read)
        assert lane.unfinished == lane.meter.repairs.is_due()
    return kept, steps, rows


def test_a_pass_keeps_no_more_of_a_longer_log_of_more_nodes() -> None:
    """With eight times the range to read and more nodes beside it, a pass keeps the same, and a step is one slice."""
    found = []
    for others, ahead in ((1, 5), (6, 40)):
        log = _log(others, ahead)
        found.append(_steps(_lane(log), log))
    (kept, steps, rows), (more_kept, more_steps, more_rows) = found
    assert sum(more_steps) > 6 * sum(steps) > 3_000
    assert max(steps) == max(more_steps) == SLICE
    assert max(kept)[0] == max(more_kept)[0] > LATE_MINUTES * 12
    assert max(size for _, size in more_kept) < 1.01 * max(size for _, size in kept)
    assert len(rows) == len(more_rows) > 0


@pytest.mark.parametrize("limit", [1, 100_000])
def test_a_pass_that_would_keep_too_much_is_cut(limit: int) -> None:
    """What is kept stays at the limit and what one slice or one look adds; the rows are those of a pass in one go."""
    log = _log(3, 5)
    whole, _, rows = _steps(_lane(log), log)
    assert max(whole)[1] > 150_000
    with patch.object(gathered, "KEPT_BYTES", limit):
        kept, _, cut = _steps(_lane(log), log)
    a_look, a_slice = 75_000, 30_000
    assert max(size for _, size in kept) <= max(limit + a_slice, a_look)
    assert cut and sorted(cut, key=str) == sorted(rows, key=str)


def test_revisions_are_made_a_few_looks_at_a_time() -> None:
    """No step makes more looks than a bound, so that no step takes long however many windows are late."""
    log = _log(1, 5)
    with patch.object(repairs, "LOOKS_A_STEP", 1):
        lane = _lane(log)
        while lane.meter.repairs.is_due():
            before, asked = lane.meter.counts["looks"], iter([False])
            list(lane.revised(_Reader(log), lambda asked=asked: next(asked, True)))
            assert lane.meter.counts["looks"] - before <= 1
    assert lane.meter.counts["looks"] >= LATE_MINUTES


def test_a_part_that_goes_while_it_is_read_gives_the_pass_up() -> None:
    """Where the log loses records between two slices, the looks of the pass are counted as given up, once."""
    log = _log(1, 5)
    lane, reader = _lane(log), _Reader(log)

    def read(partition: int, topic: str, first: int, last: int) -> tuple[list[LogRecord], int]:
        if reader.read >= SLICE:
            raise LogGoneError("gone")
        return reader(partition, topic, first, last)

    assert list(lane.revised(read, lambda: False)) == []
    assert lane.counts.gone == ["gone"]
    assert lane.meter.counts["looks_abandoned"] >= LATE_MINUTES
    assert not lane.meter.repairs.is_due()


@pytest.mark.parametrize(("module", "name"), [(gathered, "KEPT_BYTES"), (repair, "LOOKS_A_PLAN")])
def test_a_node_is_looked_at_when_its_last_look_is_made(module: object, name: str) -> None:
    """A worker that dies after the first of a node's passes makes the others in its next life, none is forgotten."""
    log = _log(1, 5)
    whole = {row["window_start_us"] for row in _steps(_lane(log), log)[2]}
    with patch.object(module, name, 1):
        lane, made = _lane(log), set()
        while not made:
            asked = iter([False])
            for table in lane.revised(_Reader(log), lambda asked=asked: next(asked, True)):
                made |= {row["window_start_us"] for row in table.to_pylist()}
        progress = lane.meter.progress()
        assert progress is not None and len(made) == 1 < len(whole)
        again = open_lane(0, 2, SETTINGS, "id", progress)
        again.feed([Received(topic, 0, 1, record) for topic, records in log.items() for record in records])
        assert not list(again.closed())
        rows = [row for table in again.revised(_Reader(log), lambda: False) for row in table.to_pylist()]
    assert {row["window_start_us"] for row in rows} | made == whole
