"""One node of the simulated cluster, assembled: its engines and the driver over them.

Tested in tests/unit/infra/sim/test_driver.py.
"""

from collections.abc import Callable, Iterator

from .driver import Driver
from .engine import Engine
from .model import SimCluster, SimContainer, SimNode, SimPod, SimProcess
from .workload import Workload


def node_named(cluster: SimCluster, name: str) -> SimNode:
    """The node; ValueError names those there are."""
    for node in cluster.nodes:
        if node.name == name:
            return node
    raise ValueError(f"no node {name!r} in cluster {cluster.name}; nodes: {', '.join(n.name for n in cluster.nodes)}")


def containers_on(cluster: SimCluster, node: str) -> Iterator[tuple[SimPod, SimContainer]]:
    """All containers of a node, with their pods."""
    return ((pod, container) for pod in cluster.pods if pod.node == node for container in pod.containers)


def processes_on(cluster: SimCluster, node: SimNode) -> Iterator[SimProcess]:
    """All processes of a node, the host's first."""
    yield from node.host_processes
    for _, container in containers_on(cluster, node.name):
        yield from container.processes


def engines_of(cluster: SimCluster, node: SimNode, workload: Workload) -> list[Engine]:
    """The node's GPUs by index, each with the processes on it."""
    processes = list(processes_on(cluster, node))
    return [
        Engine(
            gpu,
            [process for process in processes if process.gpu_uuid == gpu.uuid],
            workload.loads,
            cluster.start_us,
            node.boot_us,
        )
        for gpu in node.gpus
    ]


def driver_of(engines: list[Engine], workload: Workload, now_us: Callable[[], int], live: bool = False) -> Driver:
    """The driver over the engines, with the scenario's faults."""
    return Driver(engines, now_us, workload.faults, workload.divisor, live)
