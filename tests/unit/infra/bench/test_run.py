"""The bench as a whole, with nothing measured: which rows there are, and what a failure costs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.bench import run
from infra.bench.errors import BenchError
from infra.bench.kafka_log import Filled
from infra.bench.outcome import Outcome
from infra.bench.peers.run import Places
from infra.bench.plan import FULL, QUICK, smaller
from infra.bench.workers import Run, Work

PLACES = Places(None, Path("logs"), "python")
NAMES = ["worker", "core", "decode", "faust_event", "quixstreams", "bytewax", "flink"]


def outcome(name: str, cpu_s: float) -> Outcome:
    """An outcome of a thousand samples."""
    return Outcome(name=name, samples=1_000, cpu_s=cpu_s, wall_s=1.0, peak_mib=1.0, shape={"gpus": 8})


@contextmanager
def no_broker(folder: Path | None, *, partitions: int | None) -> Iterator[str]:
    """An address where nobody is."""
    yield "127.0.0.1:1"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> run.Bench:
    """A quick bench whose programs all take a second, the per-event Faust job a hundred."""
    monkeypatch.setattr(run, "broker", no_broker)
    monkeypatch.setattr(run, "fill", lambda *_: Filled(0, 0))
    monkeypatch.setattr(run, "meter_log", lambda _, work, *__: outcome("worker", 1.0 if work.windows else 1e-6))
    monkeypatch.setattr(run, "run_peer", lambda name, *_: outcome(name, 100.0 if name == "faust_event" else 1.0))
    monkeypatch.setattr(run.Bench, "_alone", lambda _, name: outcome(name, 1.0))
    return run.Bench(QUICK, PLACES)


def test_every_program_has_its_row_and_its_ratio(bench: run.Bench) -> None:
    """The file has one row for each of the seven programs, each against the per-event Faust job."""
    rows, fleets = bench.headline()
    assert [row["name"] for row in rows] == NAMES
    assert {row["name"]: row["ratio_to_faust_event"] for row in rows} == dict.fromkeys(NAMES, 100.0) | {
        "faust_event": 1.0
    }
    assert [row["varies"] for row in fleets] == ["gpus"]
    assert not bench.failures


def test_program_that_fails_costs_its_row_and_is_told(bench: run.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others keep theirs, and the failure is there to be shown."""

    def failing(name: str, *_: Any) -> Outcome:
        if name == "bytewax":
            raise BenchError("no outcome")
        return outcome(name, 100.0)

    monkeypatch.setattr(run, "run_peer", failing)
    rows, _ = bench.headline()
    assert [row["name"] for row in rows] == [name for name in NAMES if name != "bytewax"]
    assert bench.failures == ["bytewax: no outcome"]


def test_standing_facts_cost_their_share_of_an_hour(bench: run.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what reading all pods took, what falls due in the log's time stays; it is measured once a fleet."""
    asked: list[int] = []

    def measured(_: str, work: Work, *__: Any) -> Outcome:
        asked.append(work.windows)
        return outcome("worker", 10.0 if work.windows else 4.0)

    monkeypatch.setattr(run, "meter_log", measured)
    shape = QUICK.fleets[0]
    found = [each for _ in range(2) for _, each in bench.log(shape, (Run(),))]
    assert [each.cpu_s for each in found] == [10.0 - 4.0 * (1 - shape.seconds / 3600)] * 2
    assert [windows for windows in asked if not windows] == [0]


def test_run_of_two_sweeps_stands_in_both_tables(bench: run.Bench) -> None:
    """A run that is the middle of two sweeps is measured once and shown twice."""
    bench = run.Bench(FULL, PLACES)
    names = [row["varies"] for row in bench.sweeps()]
    assert (names.count("window_s"), names.count("lateness_s")) == (3, 3)
    assert (names.count("workers"), names.count("pods")) == (2, 4)


def test_full_plan_covers_what_is_promised() -> None:
    """Fleets from 1,000 to 300,000 GPUs, one and two workers, each sweep; a small machine leaves out the large."""
    assert (FULL.fleets[0].gpus, FULL.fleets[-1].gpus) == (1_000, 300_000)
    varied = [varied for sweep in FULL.sweeps for varied in sweep.runs]
    assert {name for each in varied for name in each.sweeps} == {"workers", "window_s", "lateness_s", "pods"}
    assert {each.run.workers for each in varied} == {1, 2}
    assert all(shape.windows_in_all(60, 10) >= shape.nodes for shape in FULL.fleets)
    assert all(shape.gpus <= 20_000 for shape in smaller(FULL, 20_000).fleets)
