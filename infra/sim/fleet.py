"""A fleet of equal nodes on which the pods of a trace are packed, each on the GPU with the fewest grants.

Tested in tests/unit/infra/sim/test_traces.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .identities import container_id_of, pids, uuid_of
from .model import SimCluster, SimContainer, SimGpu, SimNode, SimPod
from .placement import SlotBook

BOOT_BEFORE_US = 24 * 3_600_000_000
CREATE_BEFORE_US = 1_500_000
DELETE_AFTER_US = 2_000_000
MEMORY_BYTES = 80 << 30
MODEL = "NVIDIA A100-SXM4-80GB"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a container was put: node, GPUs, device ids, resource name."""

    node: str
    gpu_uuids: tuple[str, ...]
    slots: tuple[str, ...]
    resource: str


class Fleet:
    """Nodes, the book of their slots, and what did not fit."""

    def __init__(self, name: str, seed: int, start_us: int, end_us: int, nodes: int, gpus: int, replicas: int) -> None:
        self.start_us, self.end_us = start_us, end_us
        self.left_out: list[str] = []
        self.memory_share_bytes = MEMORY_BYTES // replicas
        self._name, self._seed, self._replicas = name, seed, replicas
        self._book = SlotBook()
        self._nodes = tuple(self._node(f"gpu-node-{10 * number + 10}", gpus) for number in range(nodes))
        self._pids: dict[str, Iterator[int]] = {node.name: pids() for node in self._nodes}

    def _node(self, name: str, gpus: int) -> SimNode:
        found = tuple(
            SimGpu(f"GPU-{uuid_of(self._seed, f'{name}/gpu/{index}')}", index, MODEL, MEMORY_BYTES, self._replicas)
            for index in range(gpus)
        )
        labels = {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.product": MODEL.replace(" ", "-") + "-SHARED",
            "nvidia.com/gpu.count": str(gpus),
            "nvidia.com/gpu.replicas": str(self._replicas),
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }
        boot_us = self.start_us - BOOT_BEFORE_US
        return SimNode(name, boot_us, uuid_of(self._seed, f"boot/{name}"), found, (), labels)

    def place(self, gpus: int, slots_each: int, start_us: int, end_us: int | None) -> Place | None:
        """Grants `slots_each` slots on each of `gpus` GPUs of one node; None where no node has room."""
        best: tuple[int, SimNode, list[str]] | None = None
        for node in self._nodes:
            chosen = self._chosen([gpu.uuid for gpu in node.gpus], gpus, slots_each, start_us)
            taken = sum(self._book.taken(uuid, start_us) for uuid in chosen)
            if len(chosen) == gpus and (best is None or taken < best[0]):
                best = (taken, node, chosen)
        if best is None:
            return None
        slots = [self._book.take(uuid, self._replicas, start_us, end_us) for uuid in best[2] for _ in range(slots_each)]
        return Place(best[1].name, tuple(best[2]), tuple(slot for slot in slots if slot), best[1].resource)

    def _chosen(self, uuids: Sequence[str], gpus: int, slots_each: int, at_us: int) -> list[str]:
        chosen: list[str] = []
        for _ in range(gpus):
            rest = [uuid for uuid in uuids if uuid not in chosen]
            uuid = self._book.least_taken(rest, self._replicas, slots_each, at_us)
            if uuid is not None:
                chosen.append(uuid)
        return chosen

    def pid(self, node: str) -> int:
        """A process id not used before on the node."""
        return next(self._pids[node])

    def container_id(self, name: str) -> str:
        """Container id of a pod of the trace."""
        return container_id_of(self._seed, name)

    def pod(self, name: str, namespace: str, node: str, container: SimContainer) -> SimPod:
        """A pod of one container."""
        finished_us = container.finished_us
        return SimPod(
            uid=uuid_of(self._seed, f"pod/{namespace}/{name}"),
            namespace=namespace,
            name=name,
            node=node,
            created_us=container.started_us - CREATE_BEFORE_US,
            deleted_us=None if finished_us is None else finished_us + DELETE_AFTER_US,
            containers=(container,),
        )

    def cluster(self, pods: Sequence[SimPod]) -> SimCluster:
        """The cluster with these pods."""
        return SimCluster(self._name, self.start_us, self.end_us, self._nodes, tuple(pods))

    def notes(self) -> tuple[str, ...]:
        """What found no room, in words."""
        if not self.left_out:
            return ()
        return (f"{len(self.left_out)} pods of the trace found no free slot and were left out",)
