"""Who was on the engine during a reading: integer microseconds per process, unattributed and idle.

A reading has n device samples with sum s (points), D = s/n; process p was reported with u_p points, S = sum u_p. If
S > D all are scaled by D/S (the driver divided by busy samples only, or over-reports); else the driver's floor is
repaired: each of k named processes gets min(1, (D - S)/k) points more, and what is still left is unattributed. Laws:
parts are never negative, add up to the span, and nobody unnamed gets one (tests/property/test_divide.py); two
deviations hold what they say (tests/property/test_variance.py).
"""

from dataclasses import dataclass

import numpy as np

from .divide import Ints, cumulative_by, largest_remainder, sum_by


@dataclass(frozen=True, slots=True)
class Shares:
    """Rows of readings in their fixed order: processes by (pid, start), unattributed, idle last.

    `source` is the process row, or -1 for unattributed and -2 for idle; `us` adds up to the reading's span, and
    `cumulative_us` runs within the reading.
    """

    reading: Ints
    source: Ints
    us: Ints
    cumulative_us: Ints


UNATTRIBUTED_ROW = -1
IDLE_ROW = -2


def shares(span_us: Ints, count: Ints, total: Ints, reading: Ints, util: Ints) -> Shares:
    """Divide each reading's span; `reading` (sorted) and `util` (points, -1 not named) are per process row.

    Readings without samples (count 0) or without a span are left out.
    """
    size = span_us.size
    named = util >= 0
    k = sum_by(reading, named.astype(np.int64), size)
    util_sum = sum_by(reading, np.where(named, util, 0), size)
    over = util_sum * count > total
    k1 = np.maximum(k, 1)
    floor_gap = np.minimum(k1 * count, total - util_sum * count)
    r = reading
    weight = np.where(over[r], total[r] * util, k1[r] * count[r] * util + floor_gap[r])
    weight = np.where(named, weight, 0)
    unit = np.where(over, util_sum, k1) * 100 * count
    busy = np.where(over, util_sum, k1) * total
    lost = np.where(over, 0, busy - sum_by(reading, weight, size))
    ids = np.arange(size)
    rows_reading = np.concatenate([reading, ids, ids])
    rows_source = np.concatenate([np.arange(reading.size), np.full(size, UNATTRIBUTED_ROW), np.full(size, IDLE_ROW)])
    rows_weight = np.concatenate([weight, lost, unit - busy])
    order = np.argsort(rows_reading, kind="stable")
    usable = (count > 0) & (span_us > 0)
    order = order[usable[rows_reading[order]]]
    rows_reading, rows_source, rows_weight = rows_reading[order], rows_source[order], rows_weight[order]
    us = largest_remainder(rows_reading, rows_weight, span_us[rows_reading], unit[rows_reading])
    return Shares(rows_reading, rows_source, us, cumulative_by(rows_reading, us))


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
