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

from rich.console import Console

from infra.broker import topics
from infra.broker.kafka import LocalKafka
from infra.demo.errors import DemoError
from infra.demo.ledger import front_of, with_truth
from infra.demo.plan import Plan, alone
from infra.demo.progress import Stages
from infra.demo.result import Result, collect
from infra.demo.services import Services, gpumeter, log_tail
from infra.demo.watch import LedgerWatch
from infra.sim.clock import wall_us
from infra.sim.lockstep import Simulation, SimulationPlan
from schemas.units import US_PER_HOUR, US_PER_SECOND

START_S = 60.0
STILL_S = 120.0
POLL_S = 0.25


class Demo:
    """One run of a plan; `run` does all of it."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._stages = Stages(console)
        self._services = Services(plan.logs)
        self._bootstrap = ""

    def run(self) -> Result:
        """The result, which is also written to summary.json; DemoError says which part failed."""
        plan = self._plan
        with ExitStack() as stack:
            stack.enter_context(alone(plan.out))
            self._clear()
            with self._stages.stage("broker", "Apache Kafka and topics"):
                kafka = LocalKafka(plan.kafka)
                stack.callback(kafka.stop)
                self._bootstrap = kafka.start()
                topics.apply(self._bootstrap, partitions=plan.partitions)
            stack.callback(self._services.stop_all)
            with self._stages.stage("services", "sink with its ledger, worker"):
                watch = self._start_services()
            simulation = Simulation(self._simulation_plan())
            stack.callback(simulation.stop)
            self._simulate(simulation)
            with self._stages.stage("drain", "last windows into the ledger"):
                self._drain(simulation, watch)
                watch.close()
            with self._stages.stage("result", "truth beside the ledger"):
                result = self._result(simulation)
            with self._stages.stage("stop", "everything stopped"):
                stack.close()
        shutil.rmtree(plan.kafka, ignore_errors=True)
        return result

    def _clear(self) -> None:
        """Removes the last run's files; the logs of this one begin empty."""
        plan = self._plan
        for folder in (plan.ledger, plan.kafka, plan.simulation, plan.logs):
            shutil.rmtree(folder, ignore_errors=True)
        plan.summary.unlink(missing_ok=True)
        for folder in (plan.simulation, plan.logs):
            folder.mkdir(parents=True)

    def _start_services(self) -> LedgerWatch:
        plan = self._plan
        broker = ("--bootstrap-servers", self._bootstrap)
        time_of = "--real-time" if plan.live else "--simulated-time"
        self._services.start("sink", gpumeter("sink", *broker, "--directory", str(plan.ledger)))
        self._services.start("worker", gpumeter("worker", *broker, time_of))
        wait_for(lambda: front_of(plan.ledger) is not None, self._services, START_S, "the sink's front")
        front = front_of(plan.ledger)
        assert front is not None
        return LedgerWatch(front.url, self._bootstrap)

    def _simulation_plan(self) -> SimulationPlan:
        plan = self._plan
        return SimulationPlan(
            bootstrap_servers=self._bootstrap,
            out=plan.simulation,
            start_us=self._start_us(),
            scenario=plan.scenario,
            trace=plan.trace,
            hours=plan.hours,
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
        gpus = sum(len(node.gpus) for node in cluster.nodes)
        story = f"{len(cluster.nodes)} nodes, {gpus} GPUs, {len(cluster.pods)} pods"
        length_us = simulation.end_us - cluster.start_us

        def step(now_us: int) -> None:
            self._services.check()
            done = min(1.0, (now_us - cluster.start_us) / length_us)
            self._stages.say(f"{100 * done:.0f} % of {length_us / US_PER_HOUR:g} simulated hours")

        with self._stages.stage("simulate", f"simulated cluster: {story}"):
            simulation.start()
            simulation.run(step)

    def _drain(self, simulation: Simulation, watch: LedgerWatch) -> None:
        gpus = sum(len(node.gpus) for node in simulation.cluster.nodes)
        seen, since_s = watch.look(simulation.end_us), time.monotonic()
        while not (seen.gpus_done >= gpus and seen.lag == 0):
            self._services.check()
            time.sleep(POLL_S)
            now = watch.look(simulation.end_us)
            if now != seen:
                seen, since_s = now, time.monotonic()
            if time.monotonic() - since_s > STILL_S:
                raise DemoError(
                    f"nothing new reached the ledger for {STILL_S:.0f} s: {seen.gpus_done} of {gpus} GPUs are there to "
                    f"the end.\n{log_tail(self._plan.logs / 'worker.log')}\n{log_tail(self._plan.logs / 'sink.log')}"
                )
            self._stages.say(f"{seen.rows:,} rows, {seen.gpus_done} of {gpus} GPUs to the end")

    def _result(self, simulation: Simulation) -> Result:
        plan, cluster = self._plan, simulation.cluster
        self._services.stop("worker")
        self._services.stop("sink")
        truth = sorted(plan.simulation.glob("truth-*.jsonl"))
        result = with_truth(plan.ledger, truth, lambda query: collect(query, cluster.start_us, cluster.end_us))
        story = {"scenario": plan.scenario, "trace": plan.trace and Path(plan.trace).name}
        result.summary.update(story, seconds=dict(self._stages.seconds))
        plan.summary.write_text(json.dumps(result.summary, indent=2) + "\n")
        return result


def wait_for(reached: Callable[[], bool], services: Services, patience_s: float, what: str) -> None:
    """Waits until something is so; DemoError where a process ends or patience does."""
    deadline_s = time.monotonic() + patience_s
    while not reached():
        services.check()
        if time.monotonic() > deadline_s:
            raise DemoError(f"{what} did not come within {patience_s:.0f} s; the logs are in {services.logs}")
        time.sleep(0.05)
