"""Carries out a plan's faults on a site and its cluster, in real time, one thread."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.chaos.cluster import Cluster
from tests.chaos.plan import Fault
from tests.chaos.site import Site, Slot


class Nemesis:
    """The faults of a plan; `step` does what is due."""

    def __init__(self, faults: tuple[Fault, ...], site: Site, cluster: Cluster) -> None:
        self._site, self._cluster = site, cluster
        self._began_s = time.monotonic()
        self.counts: Counter[str] = Counter()
        self._due: list[tuple[float, int, str, Callable[[], None]]] = []
        for number, fault in enumerate(faults):
            begin, end = self._actions(fault)
            self._due += [
                (fault.at_s, 2 * number, fault.kind, begin),
                (fault.at_s + fault.for_s, 2 * number + 1, "", end),
            ]
        self._due.sort(key=lambda due: due[:2])

    @property
    def is_done(self) -> bool:
        """Whether every fault has ended."""
        return not self._due

    def step(self) -> None:
        """Does what is due now."""
        while self._due and time.monotonic() - self._began_s >= self._due[0][0]:
            _, _, kind, action = self._due.pop(0)
            if kind:
                self.counts[kind] += 1
            action()

    def _actions(self, fault: Fault) -> tuple[Callable[[], None], Callable[[], None]]:
        """What begins a fault and what ends it."""
        subject, verb = fault.kind.split()
        if subject == "net":
            network = self._cluster.network
            return partial(network, verb, fault.target), partial(network, "heal", fault.target)
        if subject == "broker":
            return self._broker_actions(verb, fault.target)
        slot: Slot = {"worker": self._site.workers, "sink": [self._site.sink], "producer": [self._site.producer]}[
            subject
        ][fault.target]
        if verb == "pause":
            return partial(slot.signal, signal.SIGSTOP), partial(slot.signal, signal.SIGCONT)
        return partial(slot.hold, signal.SIGKILL if verb == "kill" else signal.SIGTERM), partial(_start, slot)

    def _broker_actions(self, verb: str, broker: int) -> tuple[Callable[[], None], Callable[[], None]]:
        kafka = self._cluster.kafka
        if verb == "kill":
            return partial(kafka.kill, broker), partial(kafka.launch, broker)
        return partial(self._signal, broker, signal.SIGSTOP), partial(self._signal, broker, signal.SIGCONT)

    def _signal(self, broker: int, number: int) -> None:
        pid = self._cluster.kafka.pid(broker)
        if pid is not None:
            os.kill(pid, number)


def _start(slot: Slot) -> None:
    if slot.held and not slot.done:
        slot.start()
