"""Idle divided by counting remainders is idle divided piece by piece."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.idle import Pairs, Subs, by_remainder

SEGMENTS = st.lists(st.tuples(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 80)), min_size=1, max_size=4)


@given(SEGMENTS, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60_000_000), st.integers(0, 10**9)), max_size=20))
def test_sums_by_remainder_are_sums_piece_by_piece(segments: list, parts: list) -> None:
    """Every holder's time and energy are the sums of what it gets of each part, floored for each by itself."""
    rows, unit = [], []
    for number, (slots, of_device) in enumerate(segments):
        ends = np.cumsum(slots).tolist()
        unit.append(max([of_device, *ends]))
        rows += [(number, len(rows), end - n, end, unit[-1]) for n, end in zip(slots, ends, strict=True)]
    parts = [(segment % len(segments), us, mj) for segment, us, mj in parts]
    pairs = Pairs(*np.array(rows, np.int64).reshape(-1, 5).T)
    segment, us, mj = np.array(parts, np.int64).reshape(-1, 3).T
    found = by_remainder(Subs(segment, segment, segment, us, mj), pairs, np.array(unit, np.int64))
    for number, _, lower, upper, of in rows:
        for sums, amount in zip(found, (us, mj), strict=True):
            mine = [int(a) for a, s in zip(amount, segment, strict=True) if s == number]
            expected = sum(a * upper // of - a * lower // of for a in mine)
            at = next(i for i, row in enumerate(rows) if row[0] == number and row[3] == upper)
            assert of > 64 or sums[at] == expected
