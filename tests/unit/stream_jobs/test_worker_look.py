"""How often a worker looks at its lanes for its page, what it says of clusters that it forgets, and how lanes share."""

from types import SimpleNamespace
from typing import Any

import pytest

from schemas.metrics import Values
from schemas.names import INPUT_TOPICS
from stream_jobs import worker as subject
from stream_jobs.core.settings import MeterSettings
from stream_jobs.figures import WORKER_METRICS, Moment, WorkerFigures
from stream_jobs.lane import Lane, open_lane
from stream_jobs.rounds import REPAIR_S
from stream_jobs.worker import Worker


def _lane() -> Lane:
    return open_lane(3, 1, MeterSettings(), "id", dict.fromkeys(INPUT_TOPICS, 0))


class _Figures:
    """Figures that take their time, by the clock and of the processor."""

    def __init__(self, patch: pytest.MonkeyPatch, wall_s: float, cpu_s: float) -> None:
        self.now_s, self._cpu_s, self._takes_s = 100.0, 0.0, (wall_s, cpu_s)
        self.looks: list[float] = []
        patch.setattr(subject, "monotonic_s", lambda: self.now_s)
        patch.setattr(subject, "thread_cpu_s", lambda: self._cpu_s)

    def values(self, lanes: Any, at: Moment) -> Values:
        """None."""
        self.looks.append(self.now_s - 100)
        self.now_s, self._cpu_s = self.now_s + self._takes_s[0], self._cpu_s + self._takes_s[1]
        return {}


def _looks(patch: pytest.MonkeyPatch, wall_s: float, cpu_s: float, rounds: int) -> list[float]:
    """When the figures were made in rounds of a second."""
    worker = Worker.__new__(Worker)
    figures: Any = _Figures(patch, wall_s, cpu_s)
    shell: Any = SimpleNamespace(is_settled=True, reaches_group=True, partitions=set, log_ends=lambda _: {})
    worker._shell, worker._figures, worker._lanes, worker._not_ready = shell, figures, {}, []
    worker._figures_at_s, worker._intake = 0.0, []  # type: ignore[assignment]
    worker._settings = SimpleNamespace(metrics_port=1)  # type: ignore[assignment]
    worker._live, worker._best_effort = SimpleNamespace(rows=0, cpu_s=0.0), SimpleNamespace(lost=0)  # type: ignore[assignment]
    for _ in range(rounds):
        worker._look()
        figures.now_s += 1
    return list(figures.looks)


def test_figures_cost_a_fiftieth_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures that cost 80 ms are made anew after four seconds, and others after two."""
    assert _looks(monkeypatch, 0.0, 0.08, rounds=9) == [0, 4, 8]
    assert _looks(monkeypatch, 0.0, 0.0, rounds=5) == [0, 2, 4]


def test_figures_in_which_the_machine_stood_still_are_made_anew_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process frozen for ten seconds while it makes its figures makes them again in the next round."""
    assert _looks(monkeypatch, 10.0, 0.01, rounds=3) == [0, 11, 22]


def test_figures_are_never_older_than_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much figures cost, they are made every 30 seconds."""
    assert _looks(monkeypatch, 0.0, 5.0, rounds=61) == [0, 30, 60]


def test_forgotten_cluster_is_named_once_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that is dropped is a warning with its name and partition, and a counter on the page."""
    worker, lane, said = Worker.__new__(Worker), _lane(), list[tuple[str, dict[str, Any]]]()
    worker._log = SimpleNamespace(warning=lambda event, **what: said.append((event, what)))
    worker._publisher = worker._parts = SimpleNamespace(read=None)  # type: ignore[assignment]
    worker._lanes = {3: lane}
    lane.meter.forgotten.append("prodd")
    lane.meter.counts["clusters_forgotten"] += 1
    worker._meter(lane, [])
    worker._meter(lane, [])
    reach_s = lane.meter.settings.reach_us // 1_000_000
    assert said == [("cluster forgotten", {"cluster": "prodd", "partition": 3, "without_clock_s": reach_s})]
    at = Moment(ends={}, wall_us=0, monotonic_s=0.0, buffered=0, away={3: 0})
    name = "gpumeter_worker_clusters_forgotten_total"
    assert WorkerFigures().values([lane], at)[name] == {("3",): 1}
    assert name in {metric.name for metric in WORKER_METRICS}


def test_lanes_share_the_time_for_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of a hundred lanes with late data takes no longer for it than a round of one."""
    worker, shares = Worker.__new__(Worker), list[float]()
    worker._publisher = worker._parts = SimpleNamespace(read=None)  # type: ignore[assignment]
    worker._lanes = {number: _lane() for number in range(100)}
    monkeypatch.setattr(subject, "meter_round", lambda *args: shares.append(args[-1]) or [])
    for lane in worker._lanes.values():
        worker._meter(lane, [])
    assert len(shares) == 100 and sum(shares) == pytest.approx(REPAIR_S)
