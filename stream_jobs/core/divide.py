"""Integer division of time among rows, and cutting it at edges, without losing or making a microsecond.

Laws: `largest_remainder` gives parts that add up to the total; `cut` gives pieces that add up to their own length for
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


def largest_remainder(group: Ints, weight: Ints, total: Ints, unit: Ints) -> Ints:
    """Parts of `total` in proportion weight/unit per row; `group` is sorted, totals and units are per row.

    The weights of a group add up to its unit. What flooring leaves goes, one each, to the largest remainders, ties in
    row order.
    """
    product = total * weight
    part = product // unit
    remainder = product - part * unit
    first = starts_of(group)
    ordinal = np.repeat(np.arange(first.size), np.diff(np.append(first, group.size)))
    left = total[first] - np.add.reduceat(part, first) if first.size else np.zeros(0, np.int64)
    order = np.lexsort((-remainder, group))
    rank = np.empty(group.size, np.int64)
    rank[order] = np.arange(group.size) - first[ordinal] if first.size else 0
    return part + (rank < left[ordinal]) if first.size else part


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


def unique_rows(*columns: Ints) -> tuple[Ints, Ints]:
    """Row number of the first of each distinct row, and for every row the number of its distinct one."""
    size = columns[0].size
    if size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.lexsort(columns[::-1])
    new = np.ones(size, bool)
    new[1:] = np.logical_or.reduce([c[order][1:] != c[order][:-1] for c in columns])
    inverse = np.empty(size, np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new], inverse
