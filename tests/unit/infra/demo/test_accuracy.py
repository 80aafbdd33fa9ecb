import numpy as np
import pytest

from infra.demo import accuracy

POINT = accuracy.US_PER_POINT


def _row(truth: int, used: int | None, sigma: int = 0, a: int = 0) -> tuple[int | None, ...]:
    return (truth, used, sigma * sigma, int(used is None), a, 0, 0, 100 * POINT)


def test_error_is_in_points_of_a_gpu_hour() -> None:
    """A whole GPU-hour too much is 100 points; median, maximum and bias are of those points."""
    rows = accuracy.pod_hours([_row(0, 100 * POINT), _row(50 * POINT, 49 * POINT), _row(POINT, POINT)])
    result = accuracy.comparison(rows)
    assert result["pod_hours"] == 3
    assert result["error_points_max"] == pytest.approx(100)
    assert result["error_points_median"] == pytest.approx(1)
    assert result["bias_points"] == pytest.approx(33)
    assert result["methods"]["d"]["error_points_max"] == pytest.approx(100)
    assert result["methods"]["a"]["bias_points"] == pytest.approx(-17)


def test_unknown_is_not_left_out() -> None:
    """A pod-hour without a figure of ours counts with its whole truth as error, and is counted as unknown."""
    result = accuracy.comparison(accuracy.pod_hours([_row(10 * POINT, None), _row(POINT, POINT, sigma=1)]))
    assert result["pod_hours_unknown"] == 1
    assert result["error_points_max"] == pytest.approx(10)


def test_coverage_counts_truths_within_two_sigma() -> None:
    """Coverage is the share of pod-hours whose truth lies within two standard deviations, bound included."""
    rows = accuracy.pod_hours([_row(100, 120, sigma=10), _row(100, 121, sigma=10), _row(100, 100, sigma=10)])
    assert accuracy.coverage_2sigma_pct(rows) == pytest.approx(200 / 3)


def test_coverage_of_a_normal_error_is_95() -> None:
    """Errors drawn from the published deviation give about 95.4 %."""
    generator = np.random.default_rng(1)
    errors = generator.normal(0, 1_000_000, 20_000).astype(int)
    rows = accuracy.pod_hours([_row(10**9, 10**9 + int(error), sigma=1_000_000) for error in errors])
    assert accuracy.coverage_2sigma_pct(rows) == pytest.approx(95.45, abs=0.6)


def test_no_rows_is_an_error() -> None:
    """Comparing nothing is refused, so an empty run never looks perfect."""
    with pytest.raises(ValueError, match="no pod-hours"):
        accuracy.pod_hours([])
