"""Integer division and cutting: nothing lost, nothing made, additive over time."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.divide import cumulative_by, cut, largest_remainder
from stream_jobs.core.estimate import shares

READING = st.tuples(
    st.integers(1, 60_000_000),
    st.integers(1, 80).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 100 * n))),
    st.lists(st.integers(-1, 100), max_size=9),
)


def column(values: list[int]) -> np.ndarray:
    """An int64 column."""
    return np.array(values, np.int64)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8).filter(any), st.integers(0, 60_000_000))
def test_largest_remainder_adds_up_and_is_within_one(weights: list[int], total: int) -> None:
    """Parts add up to the total and differ from the exact share by less than one."""
    n = len(weights)
    unit = sum(weights)
    part = largest_remainder(column([0] * n), column(weights), column([total] * n), column([unit] * n))
    assert part.sum() == total
    assert all(abs(int(p) * unit - total * w) < unit for p, w in zip(part, weights, strict=True))


def divided(readings: list) -> tuple:
    """Shares of a list of readings."""
    rows = [(i, util) for i, (_, _, utils) in enumerate(readings) for util in utils]
    return shares(
        column([r[0] for r in readings]),
        column([r[1][0] for r in readings]),
        column([r[1][1] for r in readings]),
        column([i for i, _ in rows]),
        column([u for _, u in rows]),
    ), rows


@given(st.lists(READING, min_size=1, max_size=5))
def test_shares_add_up_to_the_span_and_need_evidence(readings: list) -> None:
    """Every reading's parts are >= 0 and add up to its span, and a process that was not named gets nothing."""
    result, rows = divided(readings)
    for i, (span, _, _) in enumerate(readings):
        mine = result.us[result.reading == i]
        assert mine.min() >= 0
        assert mine.sum() == span
    for source, us in zip(result.source.tolist(), result.us.tolist(), strict=True):
        assert source < 0 or rows[source][1] >= 0 or us == 0


def pieces_of(result, span: int, cuts: list[int]) -> list[np.ndarray]:
    """Each row's part of every piece between neighbouring cuts."""
    out = []
    for a, b in pairwise(cuts):
        lengths, start, end = (np.full(result.us.size, x, np.int64) for x in (span, a, b))
        upper = cut(result.cumulative_us, lengths, start, end)
        out.append(upper - cut(result.cumulative_us - result.us, lengths, start, end))
    return out


@given(READING, st.integers(0, 60_000_000))
def test_use_over_an_edge_is_additive(reading: tuple, edge: int) -> None:
    """Use over [a,c) is use over [a,b) plus use over [b,c) for every row."""
    result, _ = divided([reading])
    cuts = [0, *([edge % reading[0]] if edge % reading[0] else []), reading[0]]
    assert (sum(pieces_of(result, reading[0], cuts)) == result.us).all()


@given(READING, st.lists(st.integers(0, 60_000_000), min_size=1, max_size=6))
def test_pieces_are_as_long_as_they_are_and_never_negative(reading: tuple, edges: list[int]) -> None:
    """Between any edges, the parts of a piece are >= 0 and add up to its length."""
    result, _ = divided([reading])
    cuts = sorted({0, reading[0], *(e % (reading[0] + 1) for e in edges)})
    for piece, (a, b) in zip(pieces_of(result, reading[0], cuts), pairwise(cuts), strict=True):
        assert piece.min() >= 0
        assert piece.sum() == b - a


@given(st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), max_size=5))
def test_cumulative_starts_anew_with_each_group(groups: list[list[int]]) -> None:
    """Running sums by group equal the running sums of each group alone."""
    group = column([i for i, values in enumerate(groups) for _ in values])
    values = column([v for values in groups for v in values])
    expected = [int(x) for values in groups for x in np.cumsum(values)]
    assert cumulative_by(group, values).tolist() == expected
