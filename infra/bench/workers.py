"""The real worker over a filled log: Kafka in, usage out, until every window of the log is closed and published.

The workers are `gpumeter worker` processes as a cluster has them, in simulated time; what they have done is read from
their own metrics pages, what they took from the kernel. CPU counts from where a worker has opened its partitions.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from infra.bench.errors import BenchError
from infra.bench.outcome import Outcome
from infra.bench.shape import FleetShape
from infra.bench.usage import Usage, usage_of
from infra.broker.child import end, spawn
from infra.broker.ports import free_ports
from infra.demo.services import gpumeter, log_tail
from stream_jobs.metrics import parse

_OPENED = '"partition opened"'
_LOOK_S = 0.1
_START_S, _END_S = 60.0, 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a log is metered: by how many workers, with which window and lateness, and for how long at most."""

    workers: int = 1
    window_s: int = 60
    lateness_s: int = 10
    limit_s: float = 900.0
    limit_mib: float = 14_000.0
    name: str = "worker"


class _Worker:
    """One worker process and what is known of it."""

    def __init__(self, bootstrap: str, group: str, run: Run, log: Path) -> None:
        self.log, (self.port,) = log, free_ports(1)
        settings = {
            "GPUMETER_BOOTSTRAP_SERVERS": bootstrap,
            "GPUMETER_SIMULATED_TIME": "true",
            "GPUMETER_WORKER_GROUP": group,
            "GPUMETER_WORKER_WINDOW_S": str(run.window_s),
            "GPUMETER_WORKER_LATENESS_S": str(run.lateness_s),
            "GPUMETER_WORKER_METRICS_PORT": str(self.port),
        }
        assignments = [f"{name}={value}" for name, value in settings.items()]
        self.process = spawn(["/usr/bin/env", *assignments, *gpumeter("worker")], log=log)
        self.began: Usage | None = None
        self.began_s = 0.0

    def look(self) -> Usage:
        """What it has used; BenchError where it has ended."""
        if self.process.poll() is not None:
            raise BenchError(f"the worker ended with exit code {self.process.returncode}. {log_tail(self.log)}")
        used = usage_of(self.process.pid)
        if self.began is None and _OPENED in self.log.read_text():
            self.began, self.began_s = used, time.monotonic()
        return used

    def counts(self) -> tuple[float, float, float]:
        """Windows closed, rows published, laws broken, by its own page; zeros while there is none."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
                page = parse(answer.read().decode())
        except (URLError, TimeoutError, ConnectionError):
            return 0, 0, 0
        names = ("windows_total", "rows_total", "conservation_violations_total")
        windows, rows, broken = (sum(page.get(f"gpumeter_worker_{name}", {}).values()) for name in names)
        return windows, rows, broken


def meter_log(bootstrap: str, shape: FleetShape, run: Run, folder: Path) -> Outcome:
    """Outcome of metering a whole log; BenchError where a worker ends, or the windows do not close in time."""
    folder.mkdir(parents=True, exist_ok=True)
    group = f"{run.name}-{time.monotonic_ns()}"
    with ExitStack() as stack:
        workers = []
        for number in range(run.workers):
            workers.append(_Worker(bootstrap, group, run, folder / f"{group}-{number}.log"))
            stack.callback(end, workers[-1].process, patience_s=_END_S)
        return _measure(workers, shape, run)


def _measure(workers: Sequence[_Worker], shape: FleetShape, run: Run) -> Outcome:
    wanted, deadline = shape.windows_in_all(run.window_s, run.lateness_s), time.monotonic() + run.limit_s
    while True:
        time.sleep(_LOOK_S)
        used = [worker.look() for worker in workers]
        counts = [worker.counts() for worker in workers]
        windows, rows, broken = (sum(count[i] for count in counts) for i in range(3))
        if windows >= wanted:
            break
        if max(now.rss_mib for now in used) > run.limit_mib:
            raise BenchError(f"{run.name}: more than {run.limit_mib:,.0f} MiB after {windows:.0f} windows of {wanted}")
        if time.monotonic() > deadline:
            raise BenchError(f"{run.name}: {windows:.0f} windows of {wanted} closed in {run.limit_s:g} s")
    used, ended_s = [worker.look() for worker in workers], time.monotonic()
    if windows > wanted or broken or not rows:
        raise BenchError(f"{run.name}: {windows:.0f} windows where {wanted} were wanted, {broken:.0f} laws broken")
    starts = [worker.began or Usage(0, 0, 0) for worker in workers]
    return Outcome(
        name=run.name,
        samples=shape.rows,
        cpu_s=sum(now.cpu_s - begin.cpu_s for now, begin in zip(used, starts, strict=True)),
        wall_s=ended_s - min(worker.began_s for worker in workers),
        peak_mib=max(now.peak_mib for now in used),
        start_cpu_s=sum(begin.cpu_s for begin in starts),
        shape={
            "gpus": shape.gpus, "node_windows": int(windows), "window_s": run.window_s, "lateness_s": run.lateness_s,
            "pods": shape.pods, "workers": run.workers, "usage_rows": int(rows), "cores": os.cpu_count(),
        },
    )  # fmt: skip
