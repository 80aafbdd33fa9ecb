"""The processes of one seed: workers, sink and producer, each kept running unless the nemesis holds it down.

A process that ends by itself with 3 (the outside was away) is started again, as Kubernetes would; one that ends with
anything else has found a defect, and so has the seed. Ended by process id only.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.broker.child import spawn
from tests.chaos.plan import Plan

_AGAIN_S = 0.5
_GRACE_S = 15.0
EXIT_OUTSIDE = 3


@dataclass(slots=True)
class Slot:
    """A process that is started again; `held` while the nemesis wants it down."""

    name: str
    argv: Callable[[], Sequence[str]]
    folder: Path
    endless: bool = True
    lives: int = 0
    held: bool = False
    restarts: int = 0
    done: bool = False
    process: subprocess.Popen[bytes] | None = None
    codes: list[int] = field(default_factory=list)
    """How lives ended that nobody ended."""
    _again_at_s: float = 0.0
    _end_by_s: float = 0.0
    _waits: bool = False

    @property
    def log(self) -> Path:
        """Output of the life at hand."""
        return self.folder / f"{self.name}-{self.lives}.log"

    def start(self) -> None:
        """A new life, as soon as the last one has ended."""
        self.held = False
        if self.process is not None and self.process.poll() is None:
            self._waits = True
            return
        self._waits, self._again_at_s, self._end_by_s = False, 0.0, 0.0
        self.lives += 1
        self.process = spawn(list(self.argv()), log=self.log)

    def hold(self, number: int) -> None:
        """Ends the life by a signal, until `start`; one that does not end within the grace is killed."""
        self.held = True
        self._end_by_s = time.monotonic() + _GRACE_S
        self.signal(number)

    def signal(self, number: int) -> None:
        """Sends a signal if it lives."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def tend(self) -> None:
        """Starts it again where it ended by itself, or was ended and shall run again."""
        if self.done or self.process is None:
            return
        code = self.process.poll()
        if code is None:
            if self._end_by_s and time.monotonic() > self._end_by_s:
                self.process.kill()
        elif self.held:
            return
        elif self._waits:
            self.start()
        elif code == 0 and not self.endless:
            self.done = True
        elif not self._again_at_s:
            self.codes.append(code)
            self._again_at_s = time.monotonic() + _AGAIN_S
        elif time.monotonic() >= self._again_at_s:
            self.restarts += 1
            self.start()

    def end(self, patience_s: float = 20.0) -> int:
        """SIGCONT and SIGTERM; the exit code, -9 where it had to be killed."""
        self.held = True
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL

    def kill(self) -> None:
        """Kill -9, for good."""
        self.held = True
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        """End of its newest log."""
        return self.log.read_text(errors="replace")[-2500:] if self.lives else ""


class Site:
    """All processes of a seed; a context that ends them."""

    def __init__(self, plan: Plan, bootstrap: str, folder: Path, break_name: str = "") -> None:
        self.group = f"chaos-{plan.seed}-{time.monotonic_ns()}"
        self.ledger = folder / "ledger"
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
            argv = ["/usr/bin/env", *(f"{k}={v}" for k, v in own.items()), sys.executable, *program, "worker"]
            self.workers.append(Slot(f"worker-{number}", lambda argv=argv: argv, folder))
        sink = [sys.executable, "-m", "infra.cli.main", "sink", "--bootstrap-servers", bootstrap]
        self.sink = Slot("sink", lambda: [*sink, "--directory", str(self.ledger), "--flush-s", "0.05"], folder)
        producer = [sys.executable, "-m", "tests.chaos.producer", bootstrap, str(plan.seed), str(folder / "sent")]
        self.producer = Slot("producer", lambda: producer, folder, endless=False)

    @property
    def slots(self) -> list[Slot]:
        """All of them."""
        return [*self.workers, self.sink, self.producer]

    def __enter__(self) -> "Site":
        for slot in self.slots:
            slot.start()
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self.slots:
            slot.signal(signal.SIGCONT)
            slot.kill()

    def tend(self) -> None:
        """Starts again what ended by itself."""
        for slot in self.slots:
            slot.tend()

    def heal(self) -> None:
        """Everything runs again."""
        for slot in self.slots:
            slot.signal(signal.SIGCONT)
            if slot.held:
                slot.start()

    def defects(self) -> list[str]:
        """Lives that ended by themselves and not because the outside was away."""
        return [
            f"{slot.name} ended with {code}; {slot.folder}"
            for slot in self.slots
            for code in slot.codes
            if code != EXIT_OUTSIDE
        ]
