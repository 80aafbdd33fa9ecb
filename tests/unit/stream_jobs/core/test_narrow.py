"""Columns that are kept in fewer bytes are the columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.narrow import narrow

NUMBERS = st.one_of(
    st.lists(st.integers(-1, 100)),
    st.lists(st.integers(-1, 1 << 20).map(lambda n: n << 21)),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.integers(-(2**63), 2**63 - 1).map(lambda n: [n] * 5),
)


@given(NUMBERS, st.data())
def test_what_is_taken_out_is_what_was_put_in(values: list[int], data: st.DataObject) -> None:
    """Any rows of any integer column come back, whatever its range."""
    column = np.array(values, np.int64)
    kept = narrow(column)
    start = data.draw(st.integers(0, len(values)))
    end = data.draw(st.integers(start, len(values)))
    assert kept.part(start, end).tolist() == values[start:end]
    index = np.arange(start, end)[::-1]
    assert kept.take(index).tolist() == values[start:end][::-1]


def test_few_bytes_hold_what_needs_few() -> None:
    """Points take a byte, pages of memory two, and one value none."""
    assert narrow(np.array([-1, 100], np.int32)).cells.dtype == np.uint8
    assert narrow(np.arange(40_000, dtype=np.int64) << 21).cells.dtype == np.uint16
    assert narrow(np.full(9, 5, np.int64)).cells is None
