"""The demo itself: broker, topics, sink, worker, simulated cluster; waits until all is in the ledger; compares.

Owns the order of things and when they are done; each part does its own work. Laws: the result is asked only when every
window of the simulated time is in the ledger; whatever happens, all processes end in reverse order
(tests/e2e/test_demo.py, tests/e2e/test_demo_interrupted.py).
"""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from rich.console import Console

from infra.broker import topics
from infra.broker.kafka import LocalKafka
from infra.demo.errors import DemoError
from infra.demo.ledger import with_truth
from infra.demo.plan import Plan, alone
from infra.demo.progress import Stages
from infra.demo.result import Result, collect
from infra.demo.services import Services, gpumeter, log_tail
from infra.demo.watch import LedgerWatch, Seen
from infra.front.place import live_front
from infra.sim.clock import wall_us
from infra.sim.lockstep import Simulation, SimulationPlan
from infra.sim.scenario import load_cluster
from schemas.units import US_PER_HOUR, US_PER_SECOND

START_S = 60.0
STILL_S = 120.0
POLL_S = 0.25
LIVE_HOURS = 24.0


class Demo:
    """One run of a plan, as a context: whatever was started has ended when it is left."""

    def __init__(self, plan: Plan, console: Console, interrupted: Callable[[], None] = lambda: None) -> None:
        """`interrupted` raises where the run is to end; it is asked at each step and in each wait."""
        self._plan = plan
        self._interrupted = interrupted
        self._stages = Stages(console)
        self._services = Services(plan.logs)
        self._kafka: LocalKafka | None = None
        self._bootstrap = ""
        self._running = ExitStack()

    def __enter__(self) -> "Demo":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bootstrap:
            with self._stages.stage("stop", "everything stopped"):
                self._running.close()
        self._running.close()
        if kind is None and not self._plan.live:
            shutil.rmtree(self._plan.kafka, ignore_errors=True)

    def run(self) -> Result:
        """The result, which is also written to summary.json; DemoError says which part failed."""
        simulation = self._begin()
        self._simulate(simulation)
        with self._stages.stage("drain", "last windows into the ledger"):
            self._drain(simulation)
        with self._stages.stage("result", "truth beside the ledger"):
            result = self._result(simulation)
        result.summary["seconds"] = dict(self._stages.seconds)
        self._plan.summary.write_text(json.dumps(result.summary, indent=2) + "\n")
        return result

    def live(self) -> NoReturn:
        """Runs in real time until interrupted."""
        simulation = self._begin()
        with self._stages.stage("simulate", f"simulated cluster in real time: {_story(simulation)}"):
            simulation.start()
        self._stages.note(f"ask it: gpumeter top --directory {self._plan.ledger}      (Ctrl-C ends the demo)")
        with self._stages.stage("live", "metering"), LedgerWatch(self._front(), self._bootstrap) as watch:
            while True:
                simulation.check()
                self._check()
                seen = watch.look(wall_us())
                self._stages.say(f"{seen.rows:,} rows in the ledger; a window closes about 2 minutes after its end")
                time.sleep(1)

    def keep(self) -> NoReturn:
        """Starts sink and worker again and holds everything until interrupted."""
        self._start_services()
        self._stages.note(f"kept: broker {self._bootstrap}, ledger front {self._front()}; Ctrl-C ends them")
        while True:
            self._check()
            time.sleep(1)

    def _begin(self) -> Simulation:
        plan = self._plan
        load_cluster(plan.scenario, start_us=self._start_us(), hours=plan.hours, trace=plan.trace)
        self._running.enter_context(alone(plan.out))
        self._clear()
        with self._stages.stage("broker", "Apache Kafka and topics"):
            self._kafka = LocalKafka(plan.kafka)
            self._running.callback(self._kafka.stop)
            self._bootstrap = self._kafka.start()
            topics.apply(self._bootstrap, partitions=plan.partitions)
        self._running.callback(self._services.stop_all)
        with self._stages.stage("services", "sink with its ledger, worker"):
            self._start_services()
        simulation = Simulation(self._simulation_plan(), self._check)
        self._running.callback(simulation.stop)
        return simulation

    def _clear(self) -> None:
        """Removes the last run's files; the logs of this one begin empty."""
        plan = self._plan
        for folder in (plan.ledger, plan.kafka, plan.simulation, plan.logs):
            shutil.rmtree(folder, ignore_errors=True)
        plan.summary.unlink(missing_ok=True)
        for folder in (plan.simulation, plan.logs):
            folder.mkdir(parents=True)

    def _check(self) -> None:
        """DemoError where the broker or a service has ended by itself; KeyboardInterrupt where it is to end."""
        self._interrupted()
        if self._kafka and not self._kafka.pids():
            raise DemoError(f"the broker ended by itself; its log is in {self._plan.kafka}")
        self._services.check()

    def _start_services(self) -> None:
        plan = self._plan
        broker = ("--bootstrap-servers", self._bootstrap)
        time_of = "--real-time" if plan.live else "--simulated-time"
        self._services.start("sink", gpumeter("sink", *broker, "--directory", str(plan.ledger)))
        self._services.start("worker", gpumeter("worker", *broker, time_of))
        self._wait_for(lambda: live_front(plan.ledger) is not None, START_S, "the sink's front")

    def _wait_for(self, reached: Callable[[], bool], patience_s: float, what: str) -> None:
        """Waits until something is so; DemoError where a process ends or patience does."""
        deadline_s = time.monotonic() + patience_s
        while not reached():
            self._check()
            if time.monotonic() > deadline_s:
                raise DemoError(f"{what} did not come within {patience_s:.0f} s; the logs are in {self._plan.logs}")
            time.sleep(0.05)

    def _front(self) -> str:
        front = live_front(self._plan.ledger)
        if front is None:
            raise DemoError(f"the sink's front does not answer.\n{log_tail(self._plan.logs / 'sink.log')}")
        return front

    def _simulation_plan(self) -> SimulationPlan:
        plan = self._plan
        return SimulationPlan(
            bootstrap_servers=self._bootstrap,
            out=plan.simulation,
            start_us=self._start_us(),
            scenario=plan.scenario,
            trace=plan.trace,
            hours=LIVE_HOURS if plan.live and plan.hours is None else plan.hours,
            step_us=None if plan.step_s is None else round(plan.step_s * US_PER_SECOND),
            live=plan.live,
        )

    def _start_us(self) -> int:
        """A full hour long enough ago that the simulated time lies in the past; live, now."""
        if self._plan.live:
            return wall_us()
        return (wall_us() // US_PER_HOUR - int(self._plan.hours or 1) - 1) * US_PER_HOUR

    def _simulate(self, simulation: Simulation) -> None:
        cluster = simulation.cluster
        length_us = simulation.end_us - cluster.start_us

        def step(now_us: int) -> None:
            self._check()
            done = min(1.0, (now_us - cluster.start_us) / length_us)
            self._stages.say(f"{100 * done:.0f} % of {length_us / US_PER_HOUR:g} simulated hours")

        with self._stages.stage("simulate", f"simulated cluster: {_story(simulation)}"):
            simulation.start()
            simulation.run(step)

    def _drain(self, simulation: Simulation) -> None:
        gpus = _gpus(simulation)
        with LedgerWatch(self._front(), self._bootstrap) as watch:
            seen, since_s = watch.look(simulation.end_us), time.monotonic()
            while not (seen.gpus_done >= gpus and seen.lag == 0):
                self._check()
                time.sleep(POLL_S)
                now = watch.look(simulation.end_us)
                if now != seen:
                    seen, since_s = now, time.monotonic()
                if time.monotonic() - since_s > STILL_S:
                    raise self._stands_still(seen, gpus)
                self._stages.say(f"{seen.rows:,} rows, {seen.gpus_done} of {gpus} GPUs to the end")

    def _stands_still(self, seen: Seen, gpus: int) -> DemoError:
        worker, sink = (log_tail(self._plan.logs / name) for name in ("worker.log", "sink.log"))
        return DemoError(
            f"nothing new reached the ledger for {STILL_S:.0f} s: {seen.gpus_done} of {gpus} GPUs are there to the "
            f"end, {seen.lag} messages wait.\n{worker}\n{sink}"
        )

    def _result(self, simulation: Simulation) -> Result:
        plan, cluster = self._plan, simulation.cluster
        self._services.stop("worker")
        self._services.stop("sink")
        truth = sorted(plan.simulation.glob("truth-*.jsonl"))
        result = with_truth(plan.ledger, truth, lambda query: collect(query, cluster.start_us, cluster.end_us))
        result.summary.update(scenario=plan.scenario, trace=plan.trace and Path(plan.trace).name)
        return result


def _gpus(simulation: Simulation) -> int:
    return sum(len(node.gpus) for node in simulation.cluster.nodes)


def _story(simulation: Simulation) -> str:
    cluster = simulation.cluster
    return f"{len(cluster.nodes)} nodes, {_gpus(simulation)} GPUs, {len(cluster.pods)} pods"
