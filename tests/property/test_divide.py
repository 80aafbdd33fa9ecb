"""Integer division and cutting: nothing lost, nothing made, additive over time."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.divide import cumulative_by, cut
from stream_jobs.core.shares import largest_remainders, whole_shares

READING = st.tuples(
    st.integers(1, 60_000_000),
    st.integers(1, 80).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 100 * n))),
    st.lists(st.integers(-1, 100), max_size=9),
)


def column(values: list[int]) -> np.ndarray:
    """An int64 column."""
    return np.array(values, np.int64)


def matrix(columns: list[list[int]]) -> np.ndarray:
    """A matrix of the given columns."""
    return np.array(columns, np.int64).T


WEIGHTS = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 1000), min_size=n, max_size=n).filter(any), min_size=1, max_size=5)
)


@given(WEIGHTS, st.integers(0, 60_000_000))
def test_largest_remainder_adds_up_and_is_within_one(weights: list[list[int]], total: int) -> None:
    """Parts add up to the total, differ from the exact share by less than one, and larger remainders come first."""
    unit = column([sum(each) for each in weights])
    parts = largest_remainders(matrix(weights), column([total] * len(weights)), unit).T.tolist()
    for part, mine in zip(parts, weights, strict=True):
        of = sum(mine)
        assert sum(part) == total
        assert all(abs(p * of - total * w) < of for p, w in zip(part, mine, strict=True))
        order = sorted(range(len(mine)), key=lambda i: (-(total * mine[i] % of), i))
        more = [p - total * w // of for p, w in zip(part, mine, strict=True)]
        assert [more[i] for i in order] == sorted(more, reverse=True)


def divided(readings: list) -> np.ndarray:
    """Shares of readings, a column each; those with fewer processes than others have some that were not named."""
    most = max(len(utils) for _, _, utils in readings)
    util = (
        np.array([[*utils, *[-1] * (most - len(utils))] for _, _, utils in readings], np.int64)
        .reshape(len(readings), most)
        .T
    )
    return whole_shares(
        column([r[0] for r in readings]), column([r[1][0] for r in readings]), column([r[1][1] for r in readings]), util
    )


@given(st.lists(READING, min_size=1, max_size=5))
def test_shares_add_up_to_the_span_and_need_evidence(readings: list) -> None:
    """Every reading's parts are >= 0 and add up to its span, and a process that was not named gets nothing."""
    result = divided(readings)
    for (span, _, utils), parts in zip(readings, result.T.tolist(), strict=True):
        assert min(parts) >= 0
        assert sum(parts) == span
        assert all(us == 0 for util, us in zip(utils, parts, strict=False) if util < 0)


def pieces_of(parts: np.ndarray, span: int, cuts: list[int]) -> list[np.ndarray]:
    """Each row's part of every piece between neighbouring cuts."""
    out = []
    upper = np.cumsum(parts)
    for a, b in pairwise(cuts):
        lengths, start, end = (np.full(parts.size, x, np.int64) for x in (span, a, b))
        out.append(cut(upper, lengths, start, end) - cut(upper - parts, lengths, start, end))
    return out


@given(READING, st.integers(0, 60_000_000))
def test_use_over_an_edge_is_additive(reading: tuple, edge: int) -> None:
    """Use over [a,c) is use over [a,b) plus use over [b,c) for every row."""
    result = divided([reading])[:, 0]
    cuts = [0, *([edge % reading[0]] if edge % reading[0] else []), reading[0]]
    assert (sum(pieces_of(result, reading[0], cuts)) == result).all()


@given(READING, st.lists(st.integers(0, 60_000_000), min_size=1, max_size=6))
def test_pieces_are_as_long_as_they_are_and_never_negative(reading: tuple, edges: list[int]) -> None:
    """Between any edges, the parts of a piece are >= 0 and add up to its length."""
    result = divided([reading])[:, 0]
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
