"""Carries out a plan's faults on a site and its cluster, in real time, one thread."""

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from tests.chaos.cluster import Cluster
from tests.chaos.plan import BROKERS, Fault
from tests.chaos.site import Site, Slot

_FULL_BYTES = 4096
"""No file of a process whose disk is full grows beyond this."""


class Nemesis:
    """The faults of a plan; `step` does what is due."""

    def __init__(self, faults: tuple[Fault, ...], site: Site, cluster: Cluster) -> None:
        self._site, self._cluster = site, cluster
        self._began_s = time.monotonic()
        self._held_s = 0.0
        self.counts: Counter[str] = Counter()
        self._faults = sorted(faults, key=lambda fault: fault.at_s)
        self._ends: list[tuple[float, Callable[[], None]]] = []

    @property
    def is_done(self) -> bool:
        """Whether every fault has ended."""
        return not self._faults and not self._ends

    def hold(self, seconds: float) -> None:
        """Faults that have not begun come so much later, as the messages do."""
        self._held_s += seconds

    def step(self) -> None:
        """Does what is due now."""
        now_s = time.monotonic()
        for due in [due for due in self._ends if due[0] <= now_s]:
            self._ends.remove(due)
            due[1]()
        while self._faults and now_s - self._began_s - self._held_s >= self._faults[0].at_s:
            fault = self._faults.pop(0)
            begin, end = self._actions(fault)
            self.counts[fault.kind] += 1
            begin()
            self._ends.append((now_s + fault.for_s, end))

    def _actions(self, fault: Fault) -> tuple[Callable[[], None], Callable[[], None]]:
        """What begins a fault and what ends it."""
        subject, verb = fault.kind.split()
        if subject == "net":
            hit = range(BROKERS) if verb == "away" else [fault.target]
            return partial(self._network, "cut" if verb == "away" else verb, hit), partial(self._network, "heal", hit)
        if subject == "broker":
            return self._broker_actions(verb, fault.target)
        slot: Slot = self._site.targets[subject][fault.target]
        if verb == "pause":
            return partial(slot.signal, signal.SIGSTOP), partial(slot.signal, signal.SIGCONT)
        if verb == "full":
            return partial(slot.limit_files, _FULL_BYTES), partial(slot.limit_files, resource.RLIM_INFINITY)
        return partial(slot.hold, signal.SIGKILL if verb == "kill" else signal.SIGTERM), partial(_start, slot)

    def _broker_actions(self, verb: str, broker: int) -> tuple[Callable[[], None], Callable[[], None]]:
        kafka = self._cluster.kafka
        if verb == "kill":
            return partial(kafka.kill, broker), partial(kafka.launch, broker)
        if verb == "restart":
            return partial(self._signal, broker, signal.SIGTERM), partial(self._launch_again, broker)
        return partial(self._signal, broker, signal.SIGSTOP), partial(self._signal, broker, signal.SIGCONT)

    def _network(self, command: str, brokers: Iterable[int]) -> None:
        for broker in brokers:
            self._cluster.network(command, broker)

    def _launch_again(self, broker: int) -> None:
        """Starts a broker that was told to end; one that has not is killed, as an impatient machine does."""
        if self._cluster.kafka.pid(broker) is not None:
            self._cluster.kafka.kill(broker)
        self._cluster.kafka.launch(broker)

    def _signal(self, broker: int, number: int) -> None:
        pid = self._cluster.kafka.pid(broker)
        if pid is not None:
            os.kill(pid, number)


def _start(slot: Slot) -> None:
    if slot.held and not slot.done:
        slot.start()
