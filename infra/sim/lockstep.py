"""The coordinator of a simulation: starts API endpoint, nodes and watcher, and moves their time.

At each step the API endpoint goes to T first, then all nodes at once, then the watcher; a process is at T when all
that it published up to T is acknowledged. After the end the nodes stop and the clock runs on, so that every window can
close. Live, the same processes follow the machine's clock. Law: time moves only when everyone has answered
(tests/integration/test_lockstep.py).
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from .filesystem import memory_directory
from .member import STOP_S, Member, SimulationError
from .model import SimCluster
from .scenario import load_cluster
from .workload import Workload

RUN_ON_US = 480_000_000
DEFAULT_STEP_US = 5_000_000
LONG_STEP_US = 30_000_000
LONG_US = 2 * 3_600_000_000


@dataclass(frozen=True, slots=True)
class SimulationPlan:
    """What to simulate: a scenario or trace from `start_us` on; `agent` are settings of the node agents."""

    bootstrap_servers: str
    out: Path
    """Where truth-NODE.jsonl and logs go."""
    start_us: int
    scenario: str = "default"
    trace: str | None = None
    hours: float | None = None
    step_us: int | None = None
    """Default: 5 s, 30 s for more than two hours; at most 60 s."""
    live: bool = False
    clock_key: str = ""
    agent: dict[str, str] = field(default_factory=dict)


class Simulation:
    """The processes of a simulation; use as a context manager, which ends them."""

    def __init__(self, plan: SimulationPlan, watch: Callable[[], None] | None = None) -> None:
        """Starts nothing; `watch` is called every second while a process is waited for, and may raise."""
        self._watch = watch
        loaded = load_cluster(plan.scenario, start_us=plan.start_us, hours=plan.hours, trace=plan.trace)
        self.cluster: SimCluster = loaded[0]
        self.workload: Workload = loaded[1]
        self.now_us = plan.start_us
        self._plan = plan
        long = self.cluster.end_us - plan.start_us > LONG_US
        self._step_us = plan.step_us or (LONG_STEP_US if long else DEFAULT_STEP_US)
        self.files = Path(tempfile.mkdtemp(prefix="gpumeter-sim-", dir=memory_directory()))
        self._paused = threading.Event()
        self.kube: Member | None = None
        self.watcher: Member | None = None
        self.nodes: dict[str, Member] = {}
        (plan.out / "logs").mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> "Simulation":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def end_us(self) -> int:
        """When the nodes stop; the clock runs on for 480 s."""
        return self.cluster.end_us

    def members(self) -> list[Member]:
        """All processes that were started."""
        return [item for item in (self.kube, *self.nodes.values(), self.watcher) if item is not None]

    def start(self) -> None:
        """Starts everyone and waits until all are ready at the start time; SimulationError where one is not."""
        try:
            self.kube = self._spawn("kube", "infra.sim.kube_process", self._what())
            for node in self.cluster.nodes:
                self.nodes[node.name] = self._spawn(node.name, "infra.sim.node_process", self._node(node.name))
            url = str(self.kube.answer(watch=self._watch)["url"])
            if not self._plan.live:
                self.kube.answer(watch=self._watch)
            where = ["--cluster", self.cluster.name, "--api-url", url, "--clock-key", self._plan.clock_key]
            broker = ["--bootstrap-servers", self._plan.bootstrap_servers, "--start-us", str(self._plan.start_us)]
            live = ["--live"] if self._plan.live else []
            self.watcher = self._spawn("watcher", "infra.sim.watcher_process", [*where, *broker, *live])
            for member in self.nodes.values():
                member.answer(watch=self._watch)
            if not self._plan.live:
                self.watcher.answer(watch=self._watch)
        except BaseException:
            self.stop()
            raise

    def advance(self, to_us: int) -> None:
        """Moves everyone to a time, at most one step of 60 s on; SimulationError where someone does not get there."""
        groups: list[list[Member | None]] = [[self.kube], [*self.nodes.values()], [self.watcher]]
        for group in groups:
            present = [member for member in group if member is not None]
            for member in present:
                member.tell(advance_to_us=to_us)
            for member in present:
                reached = member.answer(watch=self._watch).get("reached_us")
                if reached != to_us:
                    raise SimulationError(f"{member.name} went to {reached} instead of {to_us}; see {member.log}")
        self.now_us = to_us

    def run(self, on_step: Callable[[int], None] = lambda now_us: None) -> None:
        """All of the simulated time and the 480 s after; `on_step` hears each time that was reached."""
        while self.now_us < self.end_us:
            self.advance(min(self.now_us + self._step_us, self.end_us))
            on_step(self.now_us)
        self.finish_nodes()
        while self.now_us < self.end_us + RUN_ON_US:
            self.advance(min(self.now_us + self._step_us, self.end_us + RUN_ON_US))
            on_step(self.now_us)

    def finish_nodes(self) -> None:
        """Ends the nodes: their truth is complete after it. SimulationError where one ended with an error."""
        nodes, self.nodes = self.nodes, {}
        codes = [(member, member.finish()) for member in nodes.values()]
        for member, code in codes:
            member.check_exit(code)

    def check(self) -> None:
        """SimulationError where a process has ended; for a live run, which does not answer."""
        for member in self.members():
            member.check()

    def pause(self, seconds: float) -> None:
        """Waits; for a live run."""
        self._paused.wait(seconds)

    def stop(self) -> None:
        """Ends all processes and removes the nodes' files."""
        for member in (*self.nodes.values(), self.watcher):
            if member is not None:
                member.release()
        deadline_s = time.monotonic() + STOP_S
        for member in (*self.nodes.values(), self.watcher, self.kube):
            if member is not None:
                member.finish(max(1.0, deadline_s - time.monotonic()))
        shutil.rmtree(self.files, ignore_errors=True)

    def _spawn(self, name: str, module: str, arguments: list[str]) -> Member:
        return Member(name, module, arguments, self._plan.out / "logs" / f"{name}.log")

    def _what(self) -> list[str]:
        plan = self._plan
        optional = {"--trace": plan.trace, "--hours": plan.hours}
        given = [text for name, value in optional.items() if value is not None for text in (name, str(value))]
        live = ["--live"] if plan.live else []
        return ["--scenario", plan.scenario, "--start-us", str(plan.start_us), *given, *live]

    def _node(self, name: str) -> list[str]:
        plan = self._plan
        settings = [text for key, value in plan.agent.items() for text in ("--agent", f"{key}={value}")]
        where = ["--node", name, "--out", str(plan.out), "--files", str(self.files / name)]
        return [*self._what(), *where, "--bootstrap-servers", plan.bootstrap_servers, *settings]


def aligned_start_us(wall_us: int, length_us: int = 0) -> int:
    """The last full minute that lies `length_us` before a wall-clock time: where a simulation may begin."""
    return (wall_us - length_us) // 60_000_000 * 60_000_000
