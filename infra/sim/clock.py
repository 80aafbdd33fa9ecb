"""The two clocks of a simulated process: lock-step (moved by a coordinator) and live (the machine's own).

Both are the clock port of collector and watcher (`event_us`, `monotonic_us`, `wait_until_us`), so neither knows which
it runs on. They must not know what is simulated: what has to happen at a time (files, observers) is an appointment.
Law: lock-step time moves only when told, and a time is reported as reached only after `flush` returned, that is, when
all messages up to it are acknowledged (tests/unit/infra/sim/test_sim_clock.py).
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Protocol

Call = Callable[[int], None]
LIVE_STEP_US = 100_000


class Link(Protocol):
    """The coordinator as a simulated process sees it."""

    def reached(self, now_us: int) -> None:
        """Everything up to `now_us` is done and acknowledged."""

    def horizon_us(self) -> int | None:
        """The next time it may go to (waits for it); None: finish."""


class PipeLink:
    """The coordinator behind stdin and stdout, one JSON object a line; a closed stdin means finish."""

    def __init__(self, commands: IO[str] | None = None, answers: IO[str] | None = None) -> None:
        self._commands = commands or sys.stdin
        self._answers = answers or sys.stdout

    def say(self, **answer: object) -> None:
        """One answer line."""
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def reached(self, now_us: int) -> None:
        """Answers {"reached_us": now}."""
        self.say(reached_us=now_us)

    def horizon_us(self) -> int | None:
        """Reads {"advance_to_us": T} or {"finish": true}; ValueError for anything else."""
        line = self._commands.readline()
        if not line:
            return None
        command = json.loads(line)
        if command.get("finish"):
            return None
        if not isinstance(command.get("advance_to_us"), int):
            raise ValueError(f"coordinator command {line!r}: expected advance_to_us or finish")
        return int(command["advance_to_us"])


@dataclass(slots=True)
class _Appointment:
    next_us: int
    period_us: int
    call: Call


class _Agenda:
    """What happens as time moves: `advance` calls at each stop, appointments at their own times."""

    def __init__(self, start_us: int, on_advance: Call) -> None:
        self.now_us = start_us
        self._on_advance = on_advance
        self._appointments: list[_Appointment] = []

    def every(self, period_us: int, call: Call) -> None:
        """Calls `call(t)` at every multiple of the period after now."""
        self._appointments.append(_Appointment(-(-(self.now_us + 1) // period_us) * period_us, period_us, call))

    def move_to(self, target_us: int) -> None:
        while due := [item for item in self._appointments if item.next_us <= target_us]:
            first = min(due, key=lambda item: item.next_us)
            self._stop_at(first.next_us)
            first.call(first.next_us)
            first.next_us += first.period_us
        self._stop_at(target_us)

    def _stop_at(self, time_us: int) -> None:
        self.now_us = max(self.now_us, time_us)
        self._on_advance(self.now_us)


class LockstepClock:
    """Clock whose time is moved by a coordinator; single-threaded with the process it drives."""

    def __init__(
        self,
        start_us: int,
        boot_us: int,
        link: Link,
        *,
        flush: Callable[[], None] = lambda: None,
        on_advance: Call = lambda now_us: None,
    ) -> None:
        self.flush = flush
        self._boot_us = boot_us
        self._link = link
        self._horizon_us = start_us
        self._agenda = _Agenda(start_us, on_advance)
        self.every = self._agenda.every
        on_advance(start_us)

    def event_us(self) -> int:
        """Simulated wall clock."""
        return self._agenda.now_us

    def monotonic_us(self) -> int:
        """Simulated time since the node's boot."""
        return self._agenda.now_us - self._boot_us

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Moves simulated time to the deadline, waiting for the coordinator where it lies past the horizon."""
        deadline_us = self._boot_us + monotonic_us
        while deadline_us > self._horizon_us:
            self._agenda.move_to(self._horizon_us)
            self.flush()
            self._link.reached(self._horizon_us)
            horizon_us = self._link.horizon_us()
            if horizon_us is None:
                return False
            self._horizon_us = max(horizon_us, self._horizon_us)
        self._agenda.move_to(deadline_us)
        return True


class LiveClock:
    """Clock of the machine; `stop` ends every wait. A jump of the wall clock during the run is not seen."""

    def __init__(self, boot_us: int, stop: threading.Event, *, on_advance: Call = lambda now_us: None) -> None:
        self._wall_us = time.time_ns() // 1000
        self._origin_us = self._boottime_us()
        self._boot_us = boot_us
        self._stop = stop
        self._agenda = _Agenda(self._wall_us, on_advance)
        self.every = self._agenda.every
        on_advance(self._wall_us)

    @staticmethod
    def _boottime_us() -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def event_us(self) -> int:
        """Wall clock at the start plus the time since."""
        return self._wall_us + self._boottime_us() - self._origin_us

    def monotonic_us(self) -> int:
        """Time since the simulated node's boot."""
        return self.event_us() - self._boot_us

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Sleeps to the deadline in steps of 0.1 s, in which the simulated node moves on."""
        deadline_us = self._boot_us + monotonic_us
        while (left_us := deadline_us - self.event_us()) > 0:
            if self._stop.wait(min(left_us, LIVE_STEP_US) / 1_000_000):
                return False
            self._agenda.move_to(self.event_us())
        return not self._stop.is_set()


def wall_us() -> int:
    """The machine's wall clock, for where a simulation has to begin now."""
    return time.time_ns() // 1000


def stop_when_told(link: PipeLink) -> threading.Event:
    """Event set when the coordinator says finish or goes away; for live processes, which are not led by it."""
    stop = threading.Event()

    def watch() -> None:
        while link.horizon_us() is not None:
            pass
        stop.set()

    threading.Thread(target=watch, name="coordinator", daemon=True).start()
    return stop
