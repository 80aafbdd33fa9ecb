"""The processes of one seed: workers, sink and producer, and with an edge two node agents and the watcher.

A process that ends by itself with 3 (the outside was away) is as it should be; a crash is told apart from a difference;
one that ends with anything else has found a defect, and so has the seed.
"""

import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from infra.sim.kube_api import KubeApi
from tests.chaos import edge
from tests.chaos.plan import Plan
from tests.chaos.slot import Slot

EXIT_OUTSIDE = 3
_WORKS = '"partition opened"'
"""In the log of a worker that has partitions."""
_READY_S = 30.0
_SETTLE_S = 4.0
"""Time for agents to deliver what their spools hold, and then for the clock to close their last windows."""
_FLUSH_S = 45.0
_WORLD_STEP_S = 0.02


class Site:
    """All processes of a seed; a context that ends them."""

    def __init__(self, plan: Plan, bootstrap: str, folder: Path, break_name: str = "") -> None:
        self.group = f"chaos-{plan.seed}-{time.monotonic_ns()}"
        self.ledger = folder / "ledger"
        self._bootstrap, self._folder = bootstrap, folder
        program = ["-m", "tests.chaos.breaks", break_name] if break_name else ["-m", "infra.cli.main"]
        environment = {
            "GPUMETER_BOOTSTRAP_SERVERS": bootstrap,
            "GPUMETER_SIMULATED_TIME": "true",
            "GPUMETER_WORKER_GROUP": self.group,
            "GPUMETER_WORKER_PROGRESS_S": str(plan.progress_s),
            "GPUMETER_WORKER_STEP_S": "0.1",
            "GPUMETER_WORKER_STATUS_S": "2",
            "GPUMETER_WORKER_WINDOW_S": str(plan.window_s),
            "GPUMETER_WORKER_LATENESS_S": str(plan.lateness_s),
        }
        self.workers = []
        for number, static in enumerate(plan.static):
            own = environment | ({"GPUMETER_WORKER_INSTANCE": f"slot-{number}"} if static else {})
            self.workers.append(self._slot(f"worker-{number}", [*program, "worker"], own))
        sink = ["-m", "infra.cli.main", "sink", "--bootstrap-servers", bootstrap, "--directory", str(self.ledger)]
        self.sink = self._slot("sink", [*sink, "--flush-s", "0.05"])
        self._hold = folder / "hold"
        producer = ["-m", "tests.chaos.producer", bootstrap, str(plan.seed), str(folder / "sent"), str(self._hold)]
        self.producer = self._slot("producer", producer, endless=False)
        self._with_edge, self._idle_since_s = plan.edge, 0.0
        self.edge: _Edge | None = None

    def edge_slot(self, name: str, *arguments: str) -> Slot:
        """A process of the edge."""
        kind, *rest = arguments
        return self._slot(name, ["-m", "tests.chaos.edge", kind, self._bootstrap, *rest])

    def _slot(self, name: str, program: list[str], own: dict[str, str] | None = None, *, endless: bool = True) -> Slot:
        # A crash of a C library shall leave a stack.
        environment = {"PYTHONFAULTHANDLER": "1", **(own or {})}
        argv = ["/usr/bin/env", *(f"{k}={v}" for k, v in environment.items()), sys.executable, *program]
        return Slot(name, lambda: argv, self._folder, endless=endless)

    @property
    def targets(self) -> dict[str, list[Slot]]:
        """What faults may hit, by kind."""
        found = {"worker": self.workers, "sink": [self.sink], "producer": [self.producer]}
        return found | ({"agent": self.edge.agents, "watcher": [self.edge.watcher]} if self.edge else {})

    @property
    def slots(self) -> list[Slot]:
        """All of them."""
        return [slot for slots in self.targets.values() for slot in slots]

    def __enter__(self) -> "Site":
        for slot in [*self.workers, self.sink]:
            slot.start()
        # Messages and faults begin when all work, so that faults meet work.
        self._wait_for(self.workers, _WORKS)
        if self._with_edge:
            self.edge = _Edge(self)
        for slot in [self.producer, *(self.edge.slots if self.edge else [])]:
            slot.start()
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self.slots:
            slot.signal(signal.SIGCONT)
            slot.kill()
        if self.edge:
            self.edge.close()

    def tend(self) -> None:
        """Starts again what ended by itself."""
        for slot in self.slots:
            slot.tend()

    def pace(self) -> bool:
        """Holds the messages back while a worker comes up again, so that the next fault meets work; whether it does."""
        idle = any(w.held or _WORKS not in w.log.read_text(errors="replace") for w in self.workers)
        if idle and not self._idle_since_s:
            self._idle_since_s = time.monotonic()
        elif not idle:
            self._idle_since_s = 0.0
        holds = idle and time.monotonic() - self._idle_since_s < _READY_S
        if holds:
            self._hold.touch()
        else:
            self._hold.unlink(missing_ok=True)
        return holds

    def _wait_for(self, slots: list[Slot], text: str) -> None:
        """Lets time pass until the log of each life has a text, or for a while."""
        until_s = time.monotonic() + _READY_S
        while time.monotonic() < until_s and not all(text in slot.log.read_text(errors="replace") for slot in slots):
            self.wait(0.2)

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.tend()
            time.sleep(0.05)

    def heal(self) -> None:
        """Everything runs again."""
        for slot in self.slots:
            slot.signal(signal.SIGCONT)
            slot.limit_files(resource.RLIM_INFINITY)
            if slot.held and not slot.done:
                slot.start()

    def end_edge(self) -> list[str]:
        """Ends agents and watcher, if there are any, once all they know is out; what was wrong with their end."""
        if self.edge is None:
            return []
        self._wait_for(self.edge.slots, edge.AT_WORK)
        self.wait(_SETTLE_S)
        codes = {agent.name: agent.end(_FLUSH_S) for agent in self.edge.agents}
        self.wait(_SETTLE_S)
        codes["watcher"] = self.edge.watcher.end(_FLUSH_S)
        return [f"{name} ended with {code} on SIGTERM" for name, code in codes.items() if code]

    def defects(self) -> list[str]:
        """Lives that ended by themselves, neither by a crash nor because the outside was away."""
        return [
            f"{slot.name} ended with {code}; {slot.folder}"
            for slot in self.slots
            for code in slot.codes
            if code >= 0 and code != EXIT_OUTSIDE
        ]

    def crashes(self) -> list[str]:
        """Lives that ended by a signal that nobody sent, e.g. -11 for a segmentation fault in a C library."""
        return [f"{slot.name} ended by signal {-code}" for slot in self.slots for code in slot.codes if code < 0]


class _Edge:
    """Two node agents, the watcher, and the API server that it watches, in a world that begins now."""

    def __init__(self, site: Site) -> None:
        # A unix socket's path must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="gpumeter-chaos-"))
        self._api, self._over = KubeApi(edge.world()[0]), threading.Event()
        self._origin_ns = time.monotonic_ns()
        origin = str(self._origin_ns)
        self.watcher = site.edge_slot("watcher", "watcher", origin, self._api.start())
        self.agents = [
            site.edge_slot(f"agent-{n}", "agent", origin, str(self._folder), name) for n, name in enumerate(edge.NODES)
        ]
        self._world = threading.Thread(target=self._go_on, name="world", daemon=True)
        self._world.start()

    @property
    def slots(self) -> list[Slot]:
        """Agents and watcher."""
        return [*self.agents, self.watcher]

    def _go_on(self) -> None:
        while not self._over.wait(_WORLD_STEP_S):
            self._api.advance(edge.world_us(self._origin_ns))

    def close(self) -> None:
        """Ends the world."""
        self._over.set()
        self._world.join()
        self._api.stop()
        shutil.rmtree(self._folder)
