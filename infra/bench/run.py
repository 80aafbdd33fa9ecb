"""The fleet bench: `python -m infra.bench.run [--quick]`; writes build/bench.json and, in full, the page of figures.

Each measured program is a process of its own, one after the other, on a broker of its own. A program that fails costs
its row, is told at the end, and makes the exit code 1.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from infra.bench.errors import BenchError
from infra.bench.fleet_log import messages, standing
from infra.bench.kafka_log import broker, fill
from infra.bench.latency import measure as measure_latency
from infra.bench.outcome import Outcome, decode
from infra.bench.page import page, table
from infra.bench.peers.run import FAUST_EVENT, Places, run_peer
from infra.bench.plan import FULL, QUICK, Plan, smaller
from infra.bench.shape import FleetShape
from infra.bench.workers import Run, Work, meter_log
from infra.broker.errors import BrokerError
from infra.sim.interrupt import Interrupt

RESULT, SWEEPS, LOGS = Path("build/bench.json"), Path("build/bench-sweeps.json"), Path("build/bench-logs")
DOCS = Path(__file__).parents[1] / "docs"
_ALONE_LIMIT_S = 900.0
REPUBLISHED_S = 3600
"""The watcher publishes every pod and node again each hour."""


class Bench:
    """One call of the bench: what was measured so far, and what could not be."""

    def __init__(self, plan: Plan, places: Places) -> None:
        self._plan, self._places = plan, places
        self._begun_s = time.monotonic()
        self._standing_cpu_s: dict[tuple[int, int], float] = {}
        self.failures: list[str] = []

    def headline(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows of build/bench.json, and of the sweep over fleets."""
        fleets = [outcome for shape in self._plan.fleets for _, outcome in self.log(shape, (Run(),))]
        alone = [row for name in ("core", "decode") for row in self._try(name, partial(self._alone, name))]
        peers = [
            row
            for name, nodes in self._plan.peers.items()
            for row in self._try(name, partial(run_peer, name, nodes, self._places))
        ]
        faust_event = next((outcome for outcome in peers if outcome.name == FAUST_EVENT), None)
        shown = [*fleets[-1:], *alone, *peers]
        sweep = [{"varies": "gpus"} | outcome.row(faust_event) for outcome in fleets]
        return [outcome.row(faust_event) for outcome in shown], sweep

    def sweeps(self) -> list[dict[str, Any]]:
        """Rows of the other sweeps."""
        rows: list[dict[str, Any]] = []
        for sweep in self._plan.sweeps:
            measured = self.log(sweep.shape, [varied.run for varied in sweep.runs])
            tables = {varied.run: varied.sweeps for varied in sweep.runs}
            rows += [{"varies": name} | outcome.row() for run, outcome in measured for name in tables[run]]
        return rows

    def latency(self) -> list[dict[str, Any]]:
        """The row of the latency, where the plan asks for one."""
        if not self._plan.latency_nodes:
            return []
        try:
            return [{"varies": "latency"} | measure_latency(self._plan.latency_nodes, windows=2, lateness_s=10)]
        except (BenchError, BrokerError) as error:
            self.failures.append(f"latency: {error}")
            return []

    def log(self, shape: FleetShape, runs: Sequence[Run]) -> list[tuple[Run, Outcome]]:
        """Runs over one filled log with their outcomes; one that failed is left out."""
        outcomes: list[tuple[Run, Outcome]] = []
        if not self._knows_standing(shape):
            return outcomes
        with broker(self._places.folder, partitions=shape.partitions) as bootstrap:
            records = fill(bootstrap, messages(shape)).messages
            self._say(f"log of {shape.gpus:,} GPUs over {shape.seconds} s: {records:,} messages")
            for run in runs:
                what = f"{run.name} at {shape.gpus:,} GPUs"
                measure = partial(self._worker, bootstrap, shape, records, run)
                outcomes += [(run, outcome) for outcome in self._try(what, measure)]
        return outcomes

    def _worker(self, bootstrap: str, shape: FleetShape, records: int, run: Run) -> Outcome:
        work = Work(records, shape.windows_in_all(run.window_s, run.lateness_s), shape.rows, shape)
        share = min(1.0, shape.seconds / REPUBLISHED_S)
        return meter_log(bootstrap, work, run, LOGS).without_standing(
            self._standing_cpu_s[shape.gpus, shape.pods], share
        )

    def _knows_standing(self, shape: FleetShape) -> bool:
        """Measures once what a fleet's nodes and pods take to be read; False where that failed."""
        key = (shape.gpus, shape.pods)
        if key not in self._standing_cpu_s:
            with broker(self._places.folder, partitions=shape.partitions) as bootstrap:
                records = fill(bootstrap, standing(shape)).messages
                work = Work(records, 0, records, shape)
                found = self._try(
                    f"standing facts of {shape.gpus:,} GPUs", partial(meter_log, bootstrap, work, Run(), LOGS)
                )
            for outcome in found:
                self._standing_cpu_s[key] = outcome.cpu_s
        return key in self._standing_cpu_s

    def _alone(self, name: str) -> Outcome:
        shape = self._plan.alone
        options = ["--nodes", str(shape.nodes), "--windows", str(shape.windows), "--pods", str(shape.pods)]
        command = [sys.executable, "-m", "infra.bench.alone", name, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ALONE_LIMIT_S)
        if done.returncode:
            raise BenchError(f"{name} ended with exit code {done.returncode}: {done.stderr[-800:]}")
        return decode(done.stdout.splitlines()[-1])

    def _try(self, what: str, measure: Callable[[], Outcome]) -> list[Outcome]:
        """The outcome in a list, or an empty one and a failure to be told."""
        load_1m = os.getloadavg()[0]
        try:
            outcome = msgspec.structs.replace(measure(), load_1m=load_1m)
        except (BenchError, BrokerError) as error:
            self.failures.append(f"{what}: {error}")
            self._say(f"{what}: no figure: {error}")
            return []
        self._say(
            f"{what}: {outcome.samples:,} samples, {outcome.samples_per_s_per_core:,.0f} a core-second, "
            f"{outcome.peak_mib:,.0f} MiB"
        )
        return [outcome]

    def _say(self, text: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - self._begun_s:5.0f} s] {text}\n")
        sys.stdout.flush()


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Measures and writes; 1 where something has no figure."""
    parser = argparse.ArgumentParser(prog="infra.bench.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small fleets, no sweeps, no page")
    parser.add_argument("--up-to", type=int, default=1_000_000, help="leave out fleets of more GPUs than this")
    parser.add_argument("--peer-python", required=True, help="Python of the environment of requirements/bench.txt")
    parser.add_argument("--folder", type=Path, default=None, help="where brokers keep their logs (default: temporary)")
    options = parser.parse_args(argv)
    plan = smaller(QUICK if options.quick else FULL, options.up_to)
    bench = Bench(plan, Places(options.folder, LOGS, options.peer_python))
    rows, of_fleets = bench.headline()
    _write(RESULT, rows)
    sweeps = [*of_fleets, *bench.sweeps(), *bench.latency()]
    _write(SWEEPS, sweeps)
    sys.stdout.write(f"\n{table(rows)}\nwritten to {RESULT} and {SWEEPS}\n")
    if not options.quick:
        _write(DOCS / "bench.json", [*rows, *sweeps])
        (DOCS / "bench.md").write_text(page(rows, sweeps))
        subprocess.run(
            [options.peer_python, "-m", "infra.bench.plot", str(SWEEPS), str(DOCS / "bench.svg")], check=True
        )
    for failure in bench.failures:
        sys.stderr.write(f"no figure: {failure}\n")
    return 1 if bench.failures else 0


if __name__ == "__main__":
    Interrupt().listen()
    sys.exit(main())
