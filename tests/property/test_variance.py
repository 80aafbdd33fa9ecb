"""The published variance is the variance that binomial sampling has."""

import numpy as np
import pytest

from stream_jobs.core.shares import sampling_variance


@pytest.mark.parametrize("share", [0.002, 0.02, 0.2, 0.5, 0.9])
def test_two_deviations_hold_the_truth_as_often_as_they_should(share: float) -> None:
    """Over 3,000 simulated hours of 720 readings the interval of two deviations holds the truth in 93 to 98 %."""
    rng = np.random.default_rng(int(share * 1000))
    hours, readings, samples, span = 3_000, 720, 30, 5_000_000
    us = (rng.binomial(samples, share, (hours, readings)) * span / samples).astype(np.int64)
    variance = sampling_variance(us, np.full_like(us, span), np.full_like(us, samples)).sum(axis=1)
    error = np.abs(us.sum(axis=1) - share * span * readings)
    assert 0.93 <= np.mean(error <= 2 * np.sqrt(variance)) <= 0.98
