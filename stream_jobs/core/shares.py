"""Who was on the engine during a reading: integer microseconds per process, unattributed and idle.

A reading has n device samples with sum s (points), D = s/n; process p was reported with u_p points, S = sum u_p. If
S > D all are scaled by D/S (the driver divided by busy samples only, or over-reports); else the driver's floor is
repaired: each of k named processes gets min(1, (D - S)/k) points more, and what is still left is unattributed. Laws:
parts are never negative, add up to the span, and nobody unnamed gets one (tests/property/test_divide.py); two
deviations hold what they say (tests/property/test_variance.py).
"""

from dataclasses import dataclass

import numpy as np

from .divide import Ints, cut


@dataclass(frozen=True, slots=True)
class Divided:
    """Matrices of pieces: rows are the processes, then unattributed and idle; columns are pieces.

    Time and energy of a column add up to its piece's; `variance_us2` is of processes only.
    """

    us: Ints
    energy_mj: Ints
    variance_us2: Ints


def divide_columns(
    span_us: Ints, count: Ints, total: Ints, util: Ints, start_us: Ints, end_us: Ints, energy_mj: Ints
) -> Divided:
    """Divides pieces [start, end), relative to their readings' spans, and each piece's energy.

    `util` has a row per process in its reading's fixed order (points, -1 not named) and a column per piece. A reading
    without samples (count 0) or without a span has no parts.
    """
    parts = whole_shares(span_us, count, total, util)
    size = end_us - start_us
    upper = _running(parts)
    length = np.maximum(span_us, 1)
    cut_off = np.flatnonzero(size != span_us)
    if cut_off.size:
        upper[:, cut_off] = cut(upper[:, cut_off], length[cut_off], start_us[cut_off], end_us[cut_off])
    variance = np.where(count > 0, sampling_variance(parts[:-2], span_us, count), 0)
    if cut_off.size:
        ratio = size[cut_off] / length[cut_off]
        variance[:, cut_off] = (variance[:, cut_off] * ratio).astype(np.int64)
    burnt = quotient(energy_mj * upper, np.maximum(size, 1), int(energy_mj.max(initial=0)) * int(size.max(initial=0)))
    us = parts if not cut_off.size else _steps(upper)
    return Divided(us, _steps(burnt), variance)


def _running(parts: Ints) -> Ints:
    out = np.empty_like(parts)
    out[0] = parts[0]
    for i in range(1, len(parts)):
        np.add(out[i - 1], parts[i], out=out[i])
    return out


def _steps(running: Ints) -> Ints:
    out = running.copy()
    out[1:] -= running[:-1]
    return out


def whole_shares(span_us: Ints, count: Ints, total: Ints, util: Ints) -> Ints:
    """Parts of each reading's span: rows are its processes in their order, then unattributed and idle."""
    count, total = count.astype(np.int64), total.astype(np.int64)
    k, size = util.shape
    all_named = bool((util >= 0).all())
    named = None if all_named else util >= 0
    points = util.astype(np.int64)
    if named is not None:
        points *= named
    named_count = np.full(size, k, np.int64) if named is None else named.sum(axis=0)
    points_sum = points.sum(axis=0)
    over = points_sum * count > total
    k1 = np.maximum(named_count, 1)
    floor_gap = np.minimum(k1 * count, total - points_sum * count)
    weight = np.empty((k + 2, size), np.int64)
    # Scaled where the named add up to more than the device's samples, repaired where to less.
    np.multiply(points, np.where(over, total, k1 * count), out=weight[:k])
    more = np.where(over, 0, floor_gap)
    weight[:k] += more if named is None else more * named
    unit = np.where(over, points_sum, k1) * 100 * count
    busy = np.where(over, points_sum, k1) * total
    weight[k] = np.where(over, 0, busy - weight[:k].sum(axis=0))
    weight[k + 1] = unit - busy
    return largest_remainders(weight, np.where(count > 0, span_us, 0), np.maximum(unit, 1))


def largest_remainders(weight: Ints, total: Ints, unit: Ints) -> Ints:
    """Parts of each column's `total` in proportion weight/unit; a column's weights add up to its unit.

    What flooring leaves goes, one each, to the largest remainders, ties in row order.
    """
    rows = weight.shape[0]
    product = weight * total
    part = quotient(product, unit, int(total.max(initial=0)) * int(unit.max(initial=0)))
    left = total - part.sum(axis=0)
    if not left.any():
        return part
    product -= part * unit
    # Distinct keys, largest remainder first and the upper row first among equals.
    product *= rows
    product += np.arange(rows - 1, -1, -1)[:, None]
    if int(unit.max()) * rows < 2**31:
        product = product.astype(np.int32)
    ranked = np.sort(product, axis=0)
    least = ranked[np.minimum(rows - left, rows - 1), np.arange(left.size)]
    part += (product >= least) & (left > 0)
    return part


def quotient(amount: Ints, by: Ints, most: int) -> Ints:
    """amount // by, both not negative; by floats where the amounts, `most` at most, leave no doubt, which is faster.

    Below 2^53 all numbers are exact, and a true quotient below an integer is farther from it than rounding reaches.
    """
    if most + int(by.max(initial=0)) >= 2**53:
        return amount // by
    parts: Ints = (amount / by).astype(np.int64)
    return parts


PRIOR_US = 300_000_000
"""Half a sample of prior evidence in five minutes. Half a sample a reading made the intervals of low use too wide:
on the GenTD26 trace two deviations held the truth in 98.3 % of pod-hours instead of 95."""


def sampling_variance(us: Ints, span_us: Ints, count: Ints) -> Ints:
    """Binomial variance (us squared) of a share estimated from `count` samples of a span.

    span^2 p(1-p)/n with p = (share n + a/2)/(n + a) and a = span / 300 s, so that a share of 0 or 1 still has one.
    Floats only in here: variance is an estimate, and each row is rounded by itself, so sums do not depend on order.
    """
    span, n = span_us.astype(np.float64), np.maximum(count, 1).astype(np.float64)
    a = span / PRIOR_US
    p = (us / np.maximum(span, 1.0) * n + a / 2) / (n + a)
    return np.rint(span * span * p * (1.0 - p) / n).astype(np.int64)
