"""Who may be billed for a simulated GPU, and for how long: containers by grant and by process, and the host.

Pure facts of the cluster over half-open times, as the truth and the other meters' pod lists need them. Tested in
tests/unit/infra/sim/test_truth.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .engine import Engine
from .model import SimCluster, SimNode, SimProcess
from .timeline import Ints
from .world import containers_on

HOST_NAME = "host"
_FOREVER_US = 1 << 62
Life = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Holder:
    """A container (or the host) on one GPU; `lanes` are its processes' numbers on the engine."""

    namespace: str
    pod_name: str
    pod_uid: str
    container_name: str
    container_id: str
    life: Life
    slots: int
    gpu_slots: int
    lanes: Ints
    resident: tuple[Life, ...]
    pids: frozenset[int]

    def requested_us(self, start_us: int, end_us: int) -> int:
        """Device time that its slots are worth while it lives; also what is granted."""
        return self.slots * overlap_us(self.life, start_us, end_us) // self.gpu_slots

    def whole_device_us(self, start_us: int, end_us: int) -> int:
        """All of the device while a container with a request lives."""
        return overlap_us(self.life, start_us, end_us) if self.slots else 0

    def resident_us(self, start_us: int, end_us: int) -> int:
        """Time with at least one of its contexts open."""
        total, reached_us = 0, start_us
        for life in sorted(self.resident, key=lambda life: life[0]):
            total += overlap_us(life, max(start_us, reached_us), end_us)
            reached_us = max(reached_us, _FOREVER_US if life[1] is None else life[1])
        return total

    def on_device(self, now_us: int) -> bool:
        """Whether another meter's pod list has it on this device now: by grant or by process."""
        granted = self.slots > 0 and _alive(self.life, now_us)
        return granted or any(_alive(life, now_us) for life in self.resident)

    def touches(self, start_us: int, end_us: int) -> bool:
        """Whether it can have a row in a window."""
        return overlap_us(self.life, start_us, end_us) > 0


def overlap_us(life: Life, start_us: int, end_us: int) -> int:
    """Length of the part of [start, end) that lies in a life."""
    return max(0, min(_FOREVER_US if life[1] is None else life[1], end_us) - max(life[0], start_us))


def holders_of(cluster: SimCluster, node: SimNode, engine: Engine) -> list[Holder]:
    """Everyone who has a grant or a process on the engine's GPU."""
    number = {process: lane for lane, process in enumerate(engine.processes)}
    found = []
    host = [process for process in node.host_processes if process.gpu_uuid == engine.gpu.uuid]
    if host:
        ends = [process.end_us for process in host if process.end_us is not None]
        life: Life = (min(process.start_us for process in host), max(ends) if len(ends) == len(host) else None)
        found.append(Holder("", HOST_NAME, "", "", "", life, 0, engine.gpu.slots, *_of(host, number)))
    for pod, container in containers_on(cluster, node.name):
        processes = [process for process in container.processes if process.gpu_uuid == engine.gpu.uuid]
        slots = sum(slot.rsplit("::", 1)[0] == engine.gpu.uuid for slot in container.slots)
        if processes or slots:
            life = (container.started_us, container.finished_us)
            names = (pod.namespace, pod.name, pod.uid, container.name, container.container_id)
            found.append(Holder(*names, life, slots, engine.gpu.slots, *_of(processes, number)))
    return found


def _of(processes: list[SimProcess], number: dict[SimProcess, int]) -> tuple[Ints, tuple[Life, ...], frozenset[int]]:
    lanes = np.array([number[process] for process in processes], np.int64)
    return lanes, tuple(_lives(processes)), frozenset(process.pid for process in processes)


def _lives(processes: Iterable[SimProcess]) -> Iterable[Life]:
    return ((process.start_us, process.end_us) for process in processes)


def _alive(life: Life, now_us: int) -> bool:
    return life[0] <= now_us and (life[1] is None or now_us < life[1])
