"""Sequence sets, clocks and gaps against their naive oracles."""

from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.cuts import ClockIndex, Gaps, SequenceSet

NUMBERS = st.lists(st.integers(0, 40), max_size=60)


@given(NUMBERS)
def test_sequence_set_is_a_set(numbers: list[int]) -> None:
    """A number is new exactly once, in any order, and the intervals stay disjoint, sorted and not adjacent."""
    known, sequences = set(), SequenceSet()
    for number in numbers:
        assert sequences.add(number) is (number not in known)
        known.add(number)
    assert [n for a, b in sequences.intervals for n in range(a, b + 1)] == sorted(known)
    flat = [n for interval in sequences.intervals for n in interval]
    assert all(b + 1 < c for b, c in zip(flat[1::2], flat[2::2], strict=False))


@given(NUMBERS, st.integers(0, 45), st.integers(0, 45))
def test_clock_index_finds_the_first_offset_at_a_time(times: list[int], time_us: int, forgotten_us: int) -> None:
    """A time is reached at the first record at or past it; forgetting what is older changes no later answer."""
    clock = ClockIndex()
    for offset, now in enumerate(times):
        clock.add(now, offset)
    expected = next((o for o, now in enumerate(times) if now >= time_us), None)
    assert clock.first_at(time_us) == expected
    before = clock.read_from(time_us)
    if forgotten_us <= time_us:
        clock.forget_before(forgotten_us)
        assert (clock.first_at(time_us), clock.read_from(time_us)) == (expected, before)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(16, 99)), max_size=8), st.integers(0, 200))
def test_gaps_count_whole_once_they_ended_after_a_time(steps: list[tuple[int, int]], time_us: int) -> None:
    """The gaps since a time are all that ended after it, also when older ones are forgotten."""
    gaps, ended, now = Gaps(), [], 0
    for step, length in steps:
        now += step
        gaps.add(now, length)
        ended.append((now, length))
    expected = sum(length for end, length in ended if end > time_us)
    assert gaps.since(time_us) == expected
    gaps.forget_before(time_us)
    assert gaps.since(time_us) == expected


@given(st.lists(st.integers(1, 25), min_size=12, max_size=30), st.integers(0, 200), st.booleans())
def test_where_reading_begins_does_not_depend_on_the_unit(steps: list[int], time_s: int, forgotten: bool) -> None:
    """Indexes of 1, 15 and 60 s name one place for a time, the first clock of its minute, also after forgetting."""
    indexes, now_s, clocks = [ClockIndex(unit * 1_000_000) for unit in (1, 15, 60)], 0, []
    for offset, step in enumerate(steps):
        now_s += step
        clocks.append(now_s)
        for index in indexes:
            index.add(now_s * 1_000_000, offset)
    minute_s = time_s // 60 * 60
    later = [offset for offset, at_s in enumerate(clocks) if at_s >= minute_s]
    expected = 0 if len(later) == len(clocks) else later[0] if later else None
    for index in indexes:
        if forgotten:
            index.forget_before(time_s * 1_000_000)
        if expected is not None:
            assert index.read_from(time_s * 1_000_000) == expected
