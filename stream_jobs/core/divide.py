"""Integer division of time among rows, and cutting it at edges, without losing or making a microsecond.

Laws: `cut` gives pieces that add up to their own length for
any edges, and to the parts for one edge, the most that a reading shorter than a window meets; with more a part may be
off by a microsecond (tests/property/test_divide.py).
"""

from typing import Any

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]


def starts_of(group: Ints) -> Ints:
    """First row of each run of equal values in a sorted array."""
    if group.size == 0:
        return np.zeros(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(group)) + 1]).astype(np.int64)


def sum_by(index: Ints, values: Ints, size: int) -> Ints:
    """Integer sums of values per index, exact (bincount would go through floats)."""
    out = np.zeros(size, np.int64)
    np.add.at(out, index, values)
    return out


def cumulative_by(group: Ints, values: Ints) -> Ints:
    """Running sums that start anew with each group; `group` is sorted."""
    total = np.cumsum(values)
    first = starts_of(group)
    return total - np.repeat(total[first] - values[first], np.diff(np.append(first, group.size)))


def cut(cumulative: Ints, length: Ints, start: Ints, end: Ints) -> Ints:
    """How much of each running sum falls in [start, end) of a span of `length`; both relative to the span's start.

    Applied to the running sums of a reading's rows in their fixed order; differences of neighbours are the rows'
    parts, never negative, and add up to end - start. Cutting each row by itself makes pieces longer than themselves;
    the difference of two plain cuts makes a middle piece of -1. The two sides of one edge add up to the whole.
    """
    behind = cumulative - cumulative * start // length
    part: Ints = behind * (end - start) // np.maximum(length - start, 1)
    return part


def cut_amount(amount: Ints, length: Ints, start: Ints, end: Ints) -> Ints:
    """How much of one amount falls in [start, end) of a span; pieces add up to the amount for any edges."""
    return amount * end // length - amount * start // length


def expand(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Row numbers first..first+count-1 of every item, one after another, and the item each belongs to."""
    item = np.repeat(np.arange(count.size), count)
    within = np.arange(item.size) - np.repeat(np.cumsum(count) - count, count)
    return first[item] + within, item
