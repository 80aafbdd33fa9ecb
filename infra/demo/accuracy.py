"""How far figures lie from the truth, per pod and hour, in points of a GPU-hour; ours and the usual methods'.

Owns the statistics only: arrays in, numbers out; knows no database and no simulation. Law: an error is
(figure - truth) / 36 s, so a pod that was off by a whole GPU for an hour is off by 100 points; nothing is left out:
a pod-hour in which a method says nothing counts as that method saying 0 (tests/unit/infra/demo/test_accuracy.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

US_PER_POINT = 36_000_000
"""One point of a GPU-hour: 1 % of 3600 s."""

METHODS = {
    "a": "device gauge copied to each pod (dcgm-exporter)",
    "b": "last smUtil x interval",
    "c": "max(request, usage) (OpenCost)",
    "d": "whole device by request",
}


class PodHours(NamedTuple):
    """Joined rows, one per (pod, hour) that either side knows; integers of microseconds."""

    truth_us: NDArray[np.int64]
    used_us: NDArray[np.int64]
    variance_us2: NDArray[np.int64]
    unknown: NDArray[np.bool_]
    """Some window of it has no figure of ours (used is null)."""
    methods_us: Mapping[str, NDArray[np.int64]]


class ErrorSummary(NamedTuple):
    """Points of a GPU-hour: of |error| the median, 99th percentile and maximum; of the signed error the mean."""

    error_points_median: float
    error_points_p99: float
    error_points_max: float
    bias_points: float


def pod_hours(rows: Sequence[Sequence[Any]]) -> PodHours:
    """Columns of rows (truth, used, variance, unknown windows, a, b, c, d), null as 0."""
    if not rows:
        raise ValueError("no pod-hours to compare: neither the truth nor the ledger names a pod")
    table = np.array([[int(value or 0) for value in row] for row in rows], dtype=np.int64)
    methods = {name: table[:, 4 + index] for index, name in enumerate(METHODS)}
    return PodHours(table[:, 0], table[:, 1], table[:, 2], table[:, 3] > 0, methods)


def error_summary(figure_us: NDArray[np.int64], truth_us: NDArray[np.int64]) -> ErrorSummary:
    """The four figures of one method over all pod-hours."""
    points = (figure_us - truth_us) / US_PER_POINT
    size = np.abs(points)
    return ErrorSummary(float(np.median(size)), float(np.percentile(size, 99)), float(size.max()), float(points.mean()))


def coverage_2sigma_pct(rows: PodHours) -> float | None:
    """Share of pod-hours, of 100, whose truth lies within two published standard deviations; None without any."""
    known = ~rows.unknown & ((rows.variance_us2 > 0) | (rows.truth_us > 0))
    if not known.any():
        return None
    miss = np.abs(rows.used_us - rows.truth_us)[known]
    return float(100 * np.mean(miss <= 2 * np.sqrt(rows.variance_us2[known].astype(np.float64))))


def comparison(rows: PodHours) -> dict[str, Any]:
    """Everything `gpumeter accuracy` shows: pod-hours, ours with its interval, and the methods a to d."""
    ours: dict[str, Any] = error_summary(rows.used_us, rows.truth_us)._asdict()
    ours["coverage_2sigma_pct"] = coverage_2sigma_pct(rows)
    methods = {name: error_summary(rows.methods_us[name], rows.truth_us)._asdict() for name in METHODS}
    return {
        "pod_hours": len(rows.truth_us),
        "pod_hours_unknown": int(rows.unknown.sum()),
        **ours,
        "methods": {name: {"method": METHODS[name], **figures} for name, figures in methods.items()},
    }
