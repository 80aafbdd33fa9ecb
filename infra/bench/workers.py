"""The real worker over a filled log: Kafka in, usage out, until every window of the log is closed and published.

The workers are `gpumeter worker` processes as a cluster has them, in simulated time; what they have done is read from
their own metrics pages, what they took from the kernel. CPU counts from where a worker has opened its partitions.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
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
_OPENING_LOOK_S, _LOOK_S = 0.05, 0.5
"""Between two looks: at the log until the partitions are open, then at the page, which costs the worker a little."""
_END_S = 30.0
_COUNTED = ("records", "windows", "rows", "conservation_violations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a log is metered: by how many workers, with which window and lateness, and for how long at most."""

    workers: int = 1
    window_s: int = 60
    lateness_s: int = 10
    limit_s: float = 900.0
    limit_mib: float = 14_000.0
    name: str = "worker"


class Work(NamedTuple):
    """What a log asks for: records to take, windows to close, samples among them, and the fleet it is of."""

    records: int
    windows: int
    samples: int
    shape: FleetShape


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

    def counts(self) -> Counter[str]:
        """What its own page says it has done; nothing while there is no page."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as answer:
                page = parse(answer.read().decode())
        except (URLError, TimeoutError, ConnectionError):
            return Counter()
        return Counter({name: int(sum(page.get(f"gpumeter_worker_{name}_total", {}).values())) for name in _COUNTED})


def meter_log(bootstrap: str, work: Work, run: Run, folder: Path) -> Outcome:
    """Outcome of metering a whole log; BenchError where a worker ends or is not done in time."""
    folder.mkdir(parents=True, exist_ok=True)
    group = f"{run.name}-{time.monotonic_ns()}"
    with ExitStack() as stack:
        workers = []
        for number in range(run.workers):
            workers.append(_Worker(bootstrap, group, run, folder / f"{group}-{number}.log"))
            stack.callback(end, workers[-1].process, patience_s=_END_S)
        return _measure(workers, work, run)


def _measure(workers: Sequence[_Worker], work: Work, run: Run) -> Outcome:
    deadline = time.monotonic() + run.limit_s
    while True:
        used = [worker.look() for worker in workers]
        if time.monotonic() < deadline and not all(worker.began for worker in workers):
            time.sleep(_OPENING_LOOK_S)
            continue
        time.sleep(_LOOK_S)
        done = sum((worker.counts() for worker in workers), Counter[str]())
        if done["windows"] >= work.windows and done["records"] >= work.records:
            break
        so_far = f"{done['windows']} windows of {work.windows}, {done['records']} records of {work.records}"
        if max(now.rss_mib for now in used) > run.limit_mib:
            raise BenchError(f"{run.name}: more than {run.limit_mib:,.0f} MiB after {so_far}")
        if time.monotonic() > deadline:
            raise BenchError(f"{run.name}: {so_far} in {run.limit_s:g} s")
    used, ended_s = [worker.look() for worker in workers], time.monotonic()
    if done["windows"] > work.windows or done["conservation_violations"] or (work.windows and not done["rows"]):
        raise BenchError(f"{run.name}: wanted {work.windows} windows and no law broken; the workers say {dict(done)}")
    starts = [worker.began or Usage(0, 0, 0) for worker in workers]
    return Outcome(
        name=run.name,
        samples=work.samples,
        cpu_s=sum(now.cpu_s - begin.cpu_s for now, begin in zip(used, starts, strict=True)),
        wall_s=ended_s - min(worker.began_s for worker in workers),
        peak_mib=max(now.peak_mib for now in used),
        start_cpu_s=sum(begin.cpu_s for begin in starts),
        shape={
            "gpus": work.shape.gpus, "pods": work.shape.pods, "node_windows": done["windows"], "workers": run.workers,
            "window_s": run.window_s, "lateness_s": run.lateness_s, "usage_rows": done["rows"], "cores": os.cpu_count(),
        },
    )  # fmt: skip
