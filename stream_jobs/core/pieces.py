"""Readings as pieces of a window: each microsecond of a GPU counted once, also when two collectors report it.

A piece is the part of a reading's span inside the window that no earlier reading covers; earlier by (boot order in
the log, epoch, sequence). Law: pieces of a GPU do not overlap (tests/property/test_meter.py).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from .divide import Ints


@dataclass(frozen=True, slots=True)
class Pieces:
    """Piece i is [start_us, end_us) of reading `reading`; of the GPUs in `doubled` some time was reported twice."""

    reading: Ints
    start_us: Ints
    end_us: Ints
    doubled: frozenset[int]


def pieces(
    gpu: Ints, start_us: Ints, end_us: Ints, priority: Ints, window_start_us: Ints, window_end_us: Ints
) -> Pieces:
    """Pieces of readings, all columns per reading; `gpu` numbers a GPU of one node's window."""
    a, b = np.maximum(start_us, window_start_us), np.minimum(end_us, window_end_us)
    inside = np.flatnonzero(b > a)
    order = inside[np.lexsort((priority[inside], a[inside], gpu[inside]))]
    same = gpu[order][1:] == gpu[order][:-1]
    clash = np.flatnonzero(same & (a[order][1:] < b[order][:-1]))
    doubled = frozenset(int(g) for g in gpu[order][1:][clash])
    if not doubled:
        return Pieces(order, a[order], b[order], doubled)
    clean = order[~np.isin(gpu[order], list(doubled))]
    rows = [(int(r), int(a[r]), int(b[r])) for r in clean]
    for number in sorted(doubled):
        mine = order[gpu[order] == number]
        ranked = mine[np.argsort(priority[mine], kind="stable")]
        rows += _uncovered([(int(r), int(a[r]), int(b[r])) for r in ranked])
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Pieces(table[:, 0], table[:, 1], table[:, 2], doubled)


def _uncovered(ranked: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """What none before covers, as (reading, start, end); what is covered is kept as sorted starts and ends, apart."""
    kept: list[tuple[int, int, int]] = []
    starts: list[int] = []
    ends: list[int] = []
    for reading, start, end in ranked:
        first, last = bisect_left(ends, start), bisect_right(starts, end)
        edges = [start, *(t for pair in zip(starts[first:last], ends[first:last], strict=True) for t in pair), end]
        kept += [(reading, p, q) for p, q in zip(edges[::2], edges[1::2], strict=True) if q > p]
        starts[first:last] = [min(edges)]
        ends[first:last] = [max(edges)]
    return kept
