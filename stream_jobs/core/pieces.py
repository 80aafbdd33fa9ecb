"""Readings as pieces of a window: each microsecond of a GPU counted once, also when two collectors report it.

A piece is the part of a reading's span inside the window that no earlier reading covers; earlier by (boot order in
the log, epoch, sequence). Law: pieces of a GPU do not overlap (tests/property/test_meter.py).
"""

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
    kept: list[tuple[int, int, int]] = []
    for reading, start, end in ranked:
        free = [(start, end)]
        for _, x, y in kept:
            free = [part for p, q in free for part in ((p, min(q, x)), (max(p, y), q)) if part[1] > part[0]]
        kept += [(reading, p, q) for p, q in free]
    return kept
