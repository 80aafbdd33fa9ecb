"""Laws of the simulated engine's time line: the truth that everything else is measured against."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.sim.timeline import SLOT_US, Lane, Load, Timeline, fair_shares

START_US = 1_795_000_000_000_000
times = st.integers(0, 3_000_000)


@st.composite
def lanes(draw: st.DrawFn) -> list[Lane]:
    """Up to five processes with lives and loads that change in mid-slot."""
    found = []
    for _ in range(draw(st.integers(0, 5))):
        begin = draw(times)
        end = draw(st.one_of(st.none(), st.integers(begin, 3_000_000)))
        changes = sorted(draw(st.sets(times, max_size=4)) | {0})
        demand = draw(st.lists(st.floats(0, 1), min_size=len(changes), max_size=len(changes)))
        load = Load(np.array(changes, np.int64) + START_US, np.array(demand))
        found.append(Lane(START_US + begin, None if end is None else START_US + end, load))
    return found


@given(lanes(), times, times, times)
@settings(max_examples=60, deadline=None)
def test_timeline_busy_time_is_additive(found: list[Lane], a: int, b: int, c: int) -> None:
    """Busy over [a, c) is busy over [a, b) plus busy over [b, c), to the microsecond, for each process."""
    low, middle, high = (START_US + time for time in sorted((a, b, c)))
    timeline = Timeline(7, found)
    whole = timeline.busy_us(low, high)
    assert (whole == timeline.busy_us(low, middle) + timeline.busy_us(middle, high)).all()
    assert whole.min(initial=0) >= 0 and whole.sum() <= high - low


@given(lanes(), times)
@settings(max_examples=40, deadline=None)
def test_timeline_owner_agrees_with_busy_time(found: list[Lane], begin: int) -> None:
    """The owners of every single microsecond of a stretch, counted, are its busy time."""
    timeline = Timeline(7, found)
    low, high = START_US + begin, START_US + begin + 3 * SLOT_US
    owners = timeline.owner_at(np.arange(low, high, dtype=np.int64))
    counted = np.bincount(owners[owners >= 0], minlength=len(found))
    assert (counted == timeline.busy_us(low, high)).all()


@given(lanes())
@settings(max_examples=40, deadline=None)
def test_timeline_dead_process_is_never_on_the_engine(found: list[Lane]) -> None:
    """Outside its life a process has no time on the engine."""
    timeline = Timeline(7, found)
    for number, lane in enumerate(found):
        assert timeline.busy_us(START_US - 10_000_000, lane.start_us)[number] == 0
        if lane.end_us is not None:
            assert timeline.busy_us(lane.end_us, START_US + 5_000_000)[number] == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_fair_shares_fill_the_engine_and_cut_only_the_greedy(demand: list[float]) -> None:
    """Nobody gets more than asked; the engine is full where more is asked; who is cut gets as much as anyone."""
    shares = fair_shares(np.array(demand)[:, None])[:, 0]
    assert (shares <= np.array(demand) + 1e-12).all()
    assert shares.sum() == pytest.approx(min(1.0, sum(demand)), abs=1e-9)
    cut = shares < np.array(demand) - 1e-9
    if cut.any():
        assert shares[cut].min() >= shares.max() - 1e-9


def test_timeline_share_is_the_demand() -> None:
    """Over ten minutes each process has its demand of the engine, within the noise of its slots."""
    load = Load(np.array([START_US]), np.array([0.3])), Load(np.array([START_US]), np.array([0.5]))
    timeline = Timeline(3, [Lane(START_US, None, item) for item in load])
    shares = timeline.busy_us(START_US, START_US + 600_000_000) / 600_000_000
    assert shares == pytest.approx([0.3, 0.5], abs=0.005)


def test_timeline_samples_at_six_hertz_are_independent() -> None:
    """A sample says nothing about the next, so the variance of their mean is the binomial one."""
    load = Load(np.array([START_US]), np.array([0.4]))
    timeline = Timeline(11, [Lane(START_US, None, load)])
    at = START_US + np.arange(60_000, dtype=np.int64) * 166_667
    busy = (timeline.owner_at(at) == 0).astype(float)
    assert abs(np.corrcoef(busy[:-1], busy[1:])[0, 1]) < 0.015
    assert busy.reshape(-1, 60).mean(axis=1).std() == pytest.approx((0.4 * 0.6 / 60) ** 0.5, rel=0.1)
