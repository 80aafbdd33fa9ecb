import io
from typing import Any

from rich.console import Console

from infra.demo.accuracy import METHODS
from infra.demo.report import MOST_PODS, PodFigures, print_report, seconds

FIGURES = {"error_points_median": 0.1, "error_points_p99": 0.4, "error_points_max": 0.9, "bias_points": -0.02}


def _pod(number: int) -> PodFigures:
    return PodFigures(
        "team",
        f"pod-{number}",
        "u",
        60_000_000,
        None,
        30_000_000,
        10**10,
        40_000_000,
        31_000_000,
        -36_000_000,
        1,
        2,
        3,
        4,
    )


def _print(hardware: list[tuple[str, int]], lifetime_us: int, violations: int = 0, pods: int = 1) -> str:
    methods = {name: {"method": text, **FIGURES} for name, text in METHODS.items()}
    summary: dict[str, Any] = {
        **FIGURES,
        "pod_hours": pods,
        "methods": methods,
        "coverage_2sigma_pct": 95.0,
        "conservation_violations": violations,
        "windows": 1,
        "rows": 2,
    }
    console = Console(file=io.StringIO(), width=160)
    print_report(console, [_pod(n) for n in range(pods)], hardware, lifetime_us, summary)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_unknown_is_a_dash_and_zero_is_zero() -> None:
    """A figure that is not known is shown as a dash, never as 0.0."""
    assert (seconds(None), seconds(0), seconds(1_500_000)) == ("–", "0.0", "1.5")


def test_report_shows_pod_truth_and_error() -> None:
    """A pod's line has its used time, its deviation, its truth and its error in points."""
    line = next(line for line in _print([("pod", 60)], 60).splitlines() if "team/pod-0" in line)
    assert [word for word in line.replace("│", " ").split()][:9] == [
        "team/pod-0", "60.0", "–", "30.0", "0.1", "40.0", "31.0", "-1.00", "0.0",
    ]  # fmt: skip


def test_report_says_when_the_sum_is_not_the_hardware() -> None:
    """One microsecond too few is shouted, an equal sum is called equal."""
    assert "NOT EQUAL" in _print([("pod", 59), ("unallocated", 0)], 60)
    assert "NOT EQUAL" not in _print([("pod", 59), ("unallocated", 1)], 60)


def test_report_says_when_conservation_is_broken() -> None:
    """Violations turn the verdict."""
    assert "conservation broken" in _print([("pod", 60)], 60, violations=2)
    assert "every window adds up" in _print([("pod", 60)], 60)


def test_report_names_how_many_pods_it_left_out() -> None:
    """A long list is cut and says by how much."""
    assert "... and 3 more pods" in _print([("pod", 60)], 60, pods=MOST_PODS + 3)


def test_report_says_that_figures_are_of_the_observed_time() -> None:
    """Where much was unobserved the reader is told that the truth counts more time than the meter saw."""
    assert "observed time only" in _print([("pod", 45), ("unobserved", 15)], 60)
    assert "observed time only" not in _print([("pod", 60), ("unobserved", 0)], 60)
