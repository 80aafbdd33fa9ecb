"""The simulated cluster as plain facts: nodes, GPUs, pods, containers, processes and when each lived.

Built once from a scenario (scenario.py); the driver, the /proc tree, the kubelet socket and the API endpoint all read
these same facts, each at its own interface, so they agree with each other and with the truth. Times are microseconds
of event time; an end is exclusive; `None` is "still there at the end of the simulation".
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SimProcess:
    """A process on one GPU. `load` names its load in the scenario's loads; `memory_bytes` is what it keeps resident."""

    pid: int
    start_us: int
    end_us: int | None
    gpu_uuid: str
    load: str
    memory_bytes: int
    lists: int = 1
    """Bits of the NVML process lists that show it: 1 compute, 2 graphics, 4 MPS."""


@dataclass(frozen=True, slots=True)
class SimContainer:
    """One run of a container; a restart is a second SimContainer of the same name with another id."""

    name: str
    container_id: str
    started_us: int
    finished_us: int | None
    kind: str = "main"
    requests: dict[str, int] = field(default_factory=dict)
    slots: tuple[str, ...] = ()
    """Kubelet device ids granted, `GPU-x` or `GPU-x::3`; empty: none."""
    processes: tuple[SimProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class SimPod:
    """A pod on a node; `deleted_us` is when the API server forgets it."""

    uid: str
    namespace: str
    name: str
    node: str
    created_us: int
    deleted_us: int | None
    containers: tuple[SimContainer, ...]
    owner_kind: str = ""
    owner_name: str = ""
    labels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimGpu:
    """A GPU; `slots` is 1, or the number of replicas the device plugin offers of it."""

    uuid: str
    index: int
    model: str
    memory_total_bytes: int
    slots: int = 1


@dataclass(frozen=True, slots=True)
class SimNode:
    """A node: its GPUs, its processes outside any pod, its labels, when it booted."""

    name: str
    boot_us: int
    boot_id: str
    gpus: tuple[SimGpu, ...]
    host_processes: tuple[SimProcess, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    resource: str = "nvidia.com/gpu"
    """Resource name under which the plugin offers its slots; nvidia.com/gpu.shared where it renames."""


@dataclass(frozen=True, slots=True)
class SimCluster:
    """Everything that will happen between `start_us` and `end_us`."""

    name: str
    start_us: int
    end_us: int
    nodes: tuple[SimNode, ...]
    pods: tuple[SimPod, ...]
