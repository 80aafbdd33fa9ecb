"""Laws of the spans of readings, over drivers that lose, repeat, invent and fail."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from collector.answers import DeviceAnswer, ListedProcess, ProcessUtilisation, UtilisationSample
from collector.sampling import (
    LARGEST_PID,
    DeviceReading,
    DeviceState,
    complete_to,
    last_seen,
    read_devices,
)
from schemas.samples import FIRST_READING, RING_OVERFLOW

START = 1_800_000_000_000_000
RING_US = 12_000_000

_step = st.tuples(
    st.integers(100_000, 40_000_000),  # time to the next reading
    st.sampled_from([0, 0, 0, 0, 3, 6, 15]),  # what the sample call answers
    st.integers(0, 3),  # devices that are absent are lost rows of the driver's own making
    st.lists(
        st.tuples(
            st.integers(0, LARGEST_PID + 5),
            st.integers(-20_000_000, 5_000_000),
            st.sampled_from([0, 3, 50, 100, 101, 37100]),
        ),
        max_size=6,
    ),
    st.lists(st.tuples(st.integers(-30_000_000, 3_000_000), st.sampled_from([0, 40, 100, 137])), max_size=4),
)
_plans = st.lists(_step, min_size=1, max_size=12)


def _ring(now_us: int, since_us: int, period_us: int) -> list[UtilisationSample]:
    first = max(since_us, now_us - RING_US) // period_us + 1
    return [UtilisationSample(tick * period_us, tick % 101) for tick in range(first, now_us // period_us + 1)]


def _run(plan: list[tuple], period_us: int) -> list[tuple[int, DeviceReading, int, list[UtilisationSample]]]:
    """Each reading with the promise made before it and the samples the driver gave."""
    states: dict[str, DeviceState] = {}
    now_us, out = START, []
    for wait_us, code, _, rows, invented in plan:
        now_us += wait_us
        since_us = last_seen(states).get("GPU-0", 0)
        samples = [] if code else _ring(now_us, since_us, period_us)
        samples = sorted(samples + [UtilisationSample(now_us + at, points) for at, points in invented])
        processes = [ProcessUtilisation(pid, now_us + at, points, 0, 0, 0) for pid, at, points in rows]
        answer = DeviceAnswer("GPU-0", 0, "m", 0, code, samples, code, processes, 0, [], 1, 1, 0, now_us)
        promised = complete_to(states)
        [reading], states = read_devices(states, [answer], now_us)
        out.append((promised, reading, since_us, samples))
        assert complete_to(states) >= promised
    return out


@settings(deadline=None)
@given(_plans, st.sampled_from([166_667, 200_000, 1_000_000]))
def test_spans_tile_without_overlap(plan: list[tuple], period_us: int) -> None:
    """Spans never overlap and never run backwards, and touch unless the ring overflowed."""
    spans = [reading for _, reading, _, _ in _run(plan, period_us) if reading.span_end_us > reading.span_start_us]
    for earlier, later in pairwise(spans):
        assert earlier.span_end_us <= later.span_start_us
        if not later.flags & RING_OVERFLOW:
            assert earlier.span_end_us == later.span_start_us


@settings(deadline=None)
@given(_plans, st.sampled_from([166_667, 1_000_000]))
def test_later_spans_keep_the_promise(plan: list[tuple], period_us: int) -> None:
    """No span starts before what was promised before it, whatever failed in between."""
    for promised, reading, _, _ in _run(plan, period_us):
        assert reading.span_start_us >= promised
        assert reading.span_end_us >= reading.span_start_us


@settings(deadline=None)
@given(_plans, st.sampled_from([166_667, 1_000_000]))
def test_span_counts_exactly_its_samples(plan: list[tuple], period_us: int) -> None:
    """Number and sum are those of the possible samples in (start, end], each counted in one reading only."""
    counted: set[UtilisationSample] = set()
    for _, reading, since_us, samples in _run(plan, period_us):
        possible = {s.time_us: s for s in samples if s.points <= 100 and since_us < s.time_us}
        inside = [s for s in possible.values() if reading.span_start_us < s.time_us <= reading.span_end_us]
        assert (reading.sample_count, reading.sample_sum_points) == (len(inside), sum(s.points for s in inside))
        assert not counted & set(inside)
        counted |= set(inside)
        if reading.flags & FIRST_READING:
            assert reading.span_start_us == reading.span_end_us


@settings(deadline=None)
@given(_plans)
def test_refused_rows_never_appear(plan: list[tuple]) -> None:
    """A row with an impossible pid, more than 100 points or a time outside the span's reach is counted, never sent."""
    for _, reading, since_us, samples in _run(plan, 166_667):
        for row in reading.processes:
            assert 0 < row.pid <= LARGEST_PID
            assert row.sm_points <= 100
            assert since_us < row.seen_us <= reading.read_us + 1_000_000
        bad = sum(s.points > 100 or s.time_us > reading.read_us + 1_000_000 for s in samples)
        assert reading.dropped_rows >= bad


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 100)), max_size=9),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([None, 0, 5]), st.sampled_from([1, 2, 4])), max_size=9),
)
def test_merge_has_each_pid_once(used: list[tuple], listed: list[tuple]) -> None:
    """Utilisation and three lists give one row a pid: all its lists, its memory once, -1 where nothing was said."""
    processes = [ProcessUtilisation(pid, START + n, points, 0, 0, 0) for n, (pid, points) in enumerate(used)]
    lists = [ListedProcess(pid, memory, -1, -1, bit) for pid, memory, bit in listed]
    answer = DeviceAnswer("G", 0, "", 0, 0, [], 0, processes, 0, lists, 1, 1, 0, 0)
    [reading], _ = read_devices({"G": DeviceState(START - 1)}, [answer], START + 100)
    rows = {row.pid: row for row in reading.processes}
    assert len(rows) == len(reading.processes)
    assert set(rows) == {row.pid for row in processes} | {row.pid for row in lists}
    for pid, row in rows.items():
        mine = [entry for entry in lists if entry.pid == pid]
        assert row.lists == sum({entry.list_bit for entry in mine})
        assert row.memory_bytes == max(
            (entry.memory_bytes for entry in mine if entry.memory_bytes is not None), default=-1
        )
        newest = [process.sm_points for process in processes if process.pid == pid]
        assert row.sm_points == (newest[-1] if newest else -1)
