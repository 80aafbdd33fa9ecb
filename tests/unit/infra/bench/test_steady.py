"""Latencies: which record closed a window, and what is said of many."""

import pytest

from infra.bench.errors import BenchError
from infra.bench.seen import Row, latencies_s, summary, whole_windows
from infra.bench.shape import SECOND_US, START_US, FleetShape
from infra.bench.steady import Appended
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS


def appended() -> Appended:
    """Node a's reading at 7 and a clock at 8 of gpu-samples, a clock at 3 and one at 4 of the other topics."""
    log = Appended()
    log.note(GPU_SAMPLES, 0, "a", 60, 7, 1_000)
    log.note(GPU_SAMPLES, 0, "", 0, 8, 4_000)
    log.note(POD_MAPPINGS, 0, "", 0, 3, 2_000)
    log.note(POD_EVENTS, 0, "", 0, 4, 1_500)
    return log


@pytest.mark.parametrize(
    ("node", "samples_cut", "closing_us"),
    [("a", 8, 2_000), ("b", 8, 4_000)],
    ids=["its own message below the cut", "the clock at the cut, where that message is another's"],
)
def test_window_is_closed_by_the_last_of_its_three_records(node: str, samples_cut: int, closing_us: int) -> None:
    """A window's wait begins with the latest of the three appends that it needed."""
    assert appended().closing_us(node, 0, (samples_cut, 3, 4)) == closing_us


def test_summary_orders_before_it_counts() -> None:
    """Percentiles are of the sorted values, and nothing seen is an error, not a zero."""
    told = summary([float(n) for n in reversed(range(100))])
    assert (told["n"], told["p50"], told["p99"], told["max"]) == (100, 50.0, 99.0, 99.0)
    with pytest.raises(BenchError):
        summary([])


def test_steps_of_a_latency_add_up() -> None:
    """A row's wait is its time until published, until inserted and until seen, each from the one before."""
    row = Row("a", 0, 0, (8, 3, 4), (2, 9), 700_000, 1_002_000)
    found = latencies_s([row], appended(), {(2, 9): 402_000})
    assert found == {
        "all": [1.0],
        "closing_to_published_s": [0.4],
        "published_to_inserted_s": [0.298],
        "inserted_to_seen_s": [0.302],
    }


@pytest.mark.parametrize(("begins_s", "whole"), [(0, 3), (1, 2), (59, 2)])
def test_only_windows_within_a_steady_fleet_must_be_there(begins_s: int, whole: int) -> None:
    """A fleet that begins in the middle of a window has one whole window less, wherever it begins."""
    shape = FleetShape(nodes=1, windows=3, flush_s=5, reading_s=5, start_us=START_US + begins_s * SECOND_US)
    assert whole_windows(shape) == whole
