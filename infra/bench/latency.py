"""How long from the record that closes a window to its row: `python -m infra.bench.latency`; build/bench-latency.json.

A steady fleet in real time, each reading sent at once, through the real broker, worker, sink and the embedded engine's
front, all on this machine. A row counts as there when the answer of a query that shows it has come. Where the ledger
has a live view, also from a reading to the provisional figures that hold it.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.bench.errors import BenchError
from infra.bench.kafka_log import append_times_us, broker
from infra.bench.page import GOAL_S, LIVE_GOAL_S
from infra.bench.seen import ClosedWindows, LiveView, Places, latencies_s, summary, whole_windows
from infra.bench.shape import SECOND_US, FleetShape
from infra.bench.steady import SteadyFleet
from infra.bench.usage import usage_of
from infra.demo.services import Services, gpumeter, log_tail
from infra.front.place import live_front
from infra.sim.interrupt import Interrupt
from schemas.names import GPU_USAGE
from stream_jobs.ledger import open_ledger

RESULT, LOGS, LEDGER = Path("build/bench-latency.json"), Path("build/bench-logs"), Path("build/bench-ledger")
READING_S = 5
_LOOK_S = 0.15
_START_S, _REST_S = 60.0, 15.0


def measure(nodes: int, windows: int, lateness_s: int) -> dict[str, Any]:
    """Latencies over so many windows of a fleet; BenchError where a process ends or rows do not come."""
    shutil.rmtree(LEDGER, ignore_errors=True)
    # One window more: the fleet begins in the middle of one, which is not counted.
    shape = FleetShape(nodes=nodes, windows=windows + 1, lateness_s=lateness_s, reading_s=READING_S, flush_s=READING_S)
    services = Services(LOGS)
    try:
        with broker(None, partitions=shape.partitions) as bootstrap:
            try:
                return _watch(shape, bootstrap, services, lateness_s)
            finally:
                services.stop_all()
    finally:
        shutil.rmtree(LEDGER, ignore_errors=True)


def _start(services: Services, bootstrap: str, lateness_s: int) -> tuple[str, dict[str, int]]:
    """URL of the front, and the process ids of sink and worker, once they run."""
    to = ("--bootstrap-servers", bootstrap)
    settings = f"GPUMETER_WORKER_LATENESS_S={lateness_s}"
    sink = services.start("sink", gpumeter("sink", *to, "--directory", str(LEDGER)))
    worker = services.start("worker", ["/usr/bin/env", settings, *gpumeter("worker", *to, "--real-time")])
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        services.check()
        front = live_front(LEDGER)
        if front and "partition opened" in worker.log.read_text():
            return front, {"sink": sink.process.pid, "worker": worker.process.pid}
        time.sleep(0.2)
    raise BenchError(f"sink and worker did not start within {_START_S:g} s. {log_tail(worker.log)}")


def _watch(shape: FleetShape, bootstrap: str, services: Services, lateness_s: int) -> dict[str, Any]:
    front, pids = _start(services, bootstrap, lateness_s)
    # Not on a beat of the windows: a watcher's clock knows nothing of them.
    start_us = (time.time_ns() // 1000 // SECOND_US // 5 + 1) * 5 * SECOND_US + 2 * SECOND_US
    shape = replace(shape, start_us=start_us)
    fleet, ledger = SteadyFleet(bootstrap, shape), open_ledger(url=front)
    closed, live = ClosedWindows(ledger), LiveView(ledger)
    before = {name: usage_of(pid).cpu_s for name, pid in pids.items()}
    fleet.start()
    rest_until = 0.0
    while not rest_until or time.monotonic() < rest_until:
        services.check()
        if not fleet.check() and not rest_until:
            rest_until = time.monotonic() + _REST_S
        began = time.monotonic()
        closed.look()
        live.look(fleet.appended.readings)
        time.sleep(max(0.0, began + _LOOK_S - time.monotonic()))
    cores = {name: round((usage_of(pid).cpu_s - before[name]) / shape.seconds, 3) for name, pid in pids.items()}
    ledger.close()
    return _result(shape, closed, live, fleet, append_times_us(bootstrap, GPU_USAGE)) | {"cores": cores}


def _result(
    shape: FleetShape, closed: ClosedWindows, live: LiveView, fleet: SteadyFleet, published_us: Places
) -> dict[str, Any]:
    """The figures; BenchError where a window that must have closed is not there."""
    rows = [row for row in closed.rows.values() if row.start_us >= shape.start_us]
    wanted = shape.nodes * whole_windows(shape)
    if len(rows) < wanted:
        raise BenchError(f"{len(rows)} windows came into the ledger, of {wanted} that are over")
    waited = {name: summary(times) for name, times in latencies_s(rows, fleet.appended, published_us).items()}
    result = {
        "nodes": shape.nodes, "gpus": shape.gpus, "seconds": shape.seconds, "lateness_s": shape.lateness_s,
        "window_to_row_s": waited.pop("all"), "steps": waited,
        "behind_its_pace_s": fleet.latest_us / 1e6,
    }  # fmt: skip
    if live.is_there:
        result |= {
            "reading_to_live_s": summary(live.latencies_s),
            "readings_never_shown": live.waiting,
        }
    return result


def _line(name: str, result: dict[str, Any], goal_s: float) -> str:
    told = result[name]
    what = name.removesuffix("_s").replace("_", " ")
    return (
        f"{what}, {result['nodes']:,} nodes: n {told['n']:,}, p50 {told['p50']:.2f} s, p99 {told['p99']:.2f} s, "
        f"most {told['max']:.2f} s (goal p99 {goal_s:g} s)\n"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; 0 whether or not the goals are met, which the result says."""
    parser = argparse.ArgumentParser(prog="infra.bench.latency", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--lateness-s", type=int, default=10)
    options = parser.parse_args(argv)
    result = measure(options.nodes, options.windows, options.lateness_s)
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    for name, goal in (("window_to_row_s", GOAL_S), ("reading_to_live_s", LIVE_GOAL_S)):
        if name in result:
            sys.stdout.write(_line(name, result, goal))
    for name, told in result["steps"].items():
        sys.stdout.write(
            f"  of it {name.removesuffix('_s').replace('_', ' ')}: p50 {told['p50']:.2f} s, p99 {told['p99']:.2f} s\n"
        )
    sys.stdout.write(f"cores used: {result['cores']}; the machine's load {os.getloadavg()[0]:.1f}\n")
    sys.stdout.write(f"written to {RESULT}\n")
    return 0


if __name__ == "__main__":
    Interrupt().listen()
    sys.exit(main())
