"""Each microsecond of a GPU is counted once, by the reading that comes first."""

import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.pieces import pieces

SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 12), st.integers(0, 5)), max_size=10)


@given(SPANS)
def test_pieces_give_every_microsecond_to_the_first_reading(spans: list[tuple[int, int, int, int]]) -> None:
    """Inside the window a microsecond of a GPU belongs to the reading of the least priority that spans it, alone."""
    gpu, start, length, priority = (np.array([s[i] for s in spans], np.int64) for i in range(4))
    window = np.full(len(spans), 10, np.int64), np.full(len(spans), 30, np.int64)
    found = pieces(gpu, start, start + length, priority, *window)
    owners = {}
    for reading, a, b in zip(found.reading.tolist(), found.start_us.tolist(), found.end_us.tolist(), strict=True):
        for t in range(a, b):
            assert owners.setdefault((spans[reading][0], t), reading) == reading
    for g in range(3):
        for t in range(10, 30):
            mine = [i for i, (h, a, n, _) in enumerate(spans) if h == g and a <= t < a + n]
            first = min(mine, key=lambda i: (spans[i][3], i), default=None)
            owner = owners.get((g, t))
            assert (owner is None) is (first is None)
            assert owner is None or spans[owner][3] == spans[first][3]


def test_pieces_of_many_readings_that_touch_cost_no_more_each() -> None:
    """A GPU whose every reading overlaps its neighbours, ten times as many of them: no more steps for each."""
    steps = []
    for size in (200, 2_000):
        start = np.arange(size) * 10
        lines = 0

        def count(frame: object, event: str, _: object) -> object:
            nonlocal lines
            lines += event == "line"
            return count

        gpu, edge = np.zeros(size, np.int64), np.full(size, 1 << 40)
        before = sys.gettrace()
        sys.settrace(count)  # type: ignore[arg-type]
        try:
            found = pieces(gpu, start, start + 12, np.arange(size)[::-1], np.zeros(size, np.int64), edge)
        finally:
            sys.settrace(before)
        assert found.reading.size == size
        steps.append(lines / size)
    assert steps[1] < 2 * steps[0]
