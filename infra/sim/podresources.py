"""The kubelet's PodResources socket of one simulated node: real gRPC, answered from the cluster's facts.

Owns what a kubelet would list at a time; must not know who asks. Only importer of grpclib. Laws: main and sidecar
containers that run now are listed, with or without devices; ended pods are absent; each device is its own entry; the
order is another one at each call, as seen with real kubelets (tests/contracts/test_podresources.py).
"""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream

from collector import podresources_pb2 as pb
from collector.kubelet import ALLOCATABLE, LIST
from infra.sim.model import SimCluster, SimNode, SimPod

LISTED_KINDS = ("main", "sidecar")
_LONGEST_SOCKET_PATH = 107

ListStream = Stream[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse]
AllocatableStream = Stream[pb.AllocatableResourcesRequest, pb.AllocatableResourcesResponse]


def alive(start_us: int, end_us: int | None, now_us: int) -> bool:
    """Whether [start, end) holds now."""
    return start_us <= now_us and (end_us is None or now_us < end_us)


def pod_resources(pod: SimPod, resource: str, now_us: int) -> pb.PodResources:
    """The pod's entry: its containers that run now."""
    entry = pb.PodResources(name=pod.name, namespace=pod.namespace)
    for container in pod.containers:
        if container.kind in LISTED_KINDS and alive(container.started_us, container.finished_us, now_us):
            devices = [pb.ContainerDevices(resource_name=resource, device_ids=[slot]) for slot in container.slots]
            entry.containers.add(name=container.name, devices=devices)
    return entry


def allocatable(node: SimNode) -> Iterator[pb.ContainerDevices]:
    """Every slot that the node's plugin offers, each its own entry."""
    for gpu in node.gpus:
        for slot in [gpu.uuid] if gpu.slots == 1 else [f"{gpu.uuid}::{number}" for number in range(gpu.slots)]:
            yield pb.ContainerDevices(resource_name=node.resource, device_ids=[slot])


class PodResourcesServer:
    """A gRPC server on a unix socket in its own thread."""

    def __init__(self, cluster: SimCluster, node: str, socket_path: Path, now_us: Callable[[], int]) -> None:
        if len(str(socket_path).encode()) > _LONGEST_SOCKET_PATH:
            raise ValueError(
                f"socket path {socket_path} is longer than {_LONGEST_SOCKET_PATH} bytes, which Linux refuses"
            )
        self._node = next(candidate for candidate in cluster.nodes if candidate.name == node)
        self._pods = [pod for pod in cluster.pods if pod.node == node]
        self._socket_path = socket_path
        self._now_us = now_us
        self._order = random.Random(node)
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listens; returns when calls are answered."""
        self._socket_path.unlink(missing_ok=True)
        self._socket_path.parent.mkdir(parents=True, exist_ok=True)
        listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(
            target=lambda: self._loop.run_until_complete(self._serve(listening)), name="podresources", daemon=True
        )
        self._thread.start()
        if not listening.wait(10):
            raise RuntimeError(f"PodResources socket {self._socket_path} did not open within 10 s")

    def stop(self) -> None:
        """Stops listening, ends the thread and removes the socket, as a stopped kubelet does."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()
        self._thread = None
        self._socket_path.unlink(missing_ok=True)

    async def _serve(self, listening: threading.Event) -> None:
        server = Server([self])
        await server.start(path=str(self._socket_path))
        listening.set()
        await self._stop.wait()
        server.close()
        await server.wait_closed()

    async def _list(self, stream: ListStream) -> None:
        await stream.recv_message()
        now_us = self._now_us()
        answer = pb.ListPodResourcesResponse()
        for pod in self._order.sample(self._pods, len(self._pods)):
            entry = pod_resources(pod, self._node.resource, now_us)
            if entry.containers and alive(pod.created_us, pod.deleted_us, now_us):
                answer.pod_resources.append(entry)
        await stream.send_message(answer)

    async def _allocatable(self, stream: AllocatableStream) -> None:
        await stream.recv_message()
        devices = list(allocatable(self._node))
        self._order.shuffle(devices)
        await stream.send_message(pb.AllocatableResourcesResponse(devices=devices))

    def __mapping__(self) -> dict[str, Handler]:
        """What grpclib serves: method path → handler."""
        unary = Cardinality.UNARY_UNARY
        return {
            LIST: Handler(self._list, unary, pb.ListPodResourcesRequest, pb.ListPodResourcesResponse),
            ALLOCATABLE: Handler(
                self._allocatable, unary, pb.AllocatableResourcesRequest, pb.AllocatableResourcesResponse
            ),
        }
