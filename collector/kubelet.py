"""What the kubelet granted: PodResources v1, as grants and slots of GPUs.

Owns the reading of device ids in every form that is known; must not know how grants are used. Laws: only GPUs come
out, each slot once, in a fixed order whatever the kubelet's; an index that NVML cannot name now keeps the kubelet's
own word as its device, so the grant is not lost (tests/unit/collector/test_kubelet.py, tests/contracts).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError

from schemas.ids import device_of_slot
from schemas.snapshots import DeviceSlots, Grant

from . import podresources_pb2 as pb
from .errors import Retry
from .kubelet_grpc import UNIMPLEMENTED, GrpcError, unary_call

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"

UuidByIndex = Callable[[int, int | None], str | None]
"""(index of the GPU, GPU instance id or None) → NVML UUID as of now, None where there is no such device."""

_Answer = TypeVar("_Answer", pb.ListPodResourcesResponse, pb.AllocatableResourcesResponse)
_INDEXED = re.compile(r"nvidia(?P<index>\d+)(?:/gi(?P<instance>\d+))?(?:/vgpu\d+)?")


def no_uuid(_index: int, _instance: int | None) -> str | None:
    """Translation for nodes whose plugin never speaks of indices."""
    return None


def device_of(resource: str, device_id: str, uuid_by_index: UuidByIndex) -> str | None:
    """UUID of the device that a kubelet device id is a slot of; None: not an NVIDIA GPU."""
    if device_id.startswith(("GPU-", "MIG-")):
        return device_of_slot(device_id)
    indexed = _INDEXED.fullmatch(device_id)
    if indexed is None or not resource.startswith("nvidia.com/"):
        return None
    instance = indexed["instance"]
    uuid = uuid_by_index(int(indexed["index"]), None if instance is None else int(instance))
    return uuid or device_id.partition("/vgpu")[0]


def grants_of(answer: pb.ListPodResourcesResponse, uuid_by_index: UuidByIndex) -> list[Grant]:
    """Grants of GPU slots in the kubelet's answer, sorted, each once."""
    found = {
        (pod.namespace, pod.name, container.name, devices.resource_name, device_id, gpu_uuid)
        for pod in answer.pod_resources
        for container in pod.containers
        for devices in container.devices
        for device_id in devices.device_ids
        if (gpu_uuid := device_of(devices.resource_name, device_id, uuid_by_index)) is not None
    }
    return [
        Grant(gpu_uuid=gpu, slot=slot, resource=resource, namespace=namespace, pod_name=pod, container_name=container)
        for namespace, pod, container, resource, slot, gpu in sorted(found)
    ]


def slots_of(devices: Iterable[pb.ContainerDevices], uuid_by_index: UuidByIndex) -> list[DeviceSlots]:
    """Slots that the kubelet can grant of each GPU, sorted by GPU."""
    found = {
        (gpu_uuid, device_id)
        for entry in devices
        for device_id in entry.device_ids
        if (gpu_uuid := device_of(entry.resource_name, device_id, uuid_by_index)) is not None
    }
    counts = Counter(gpu_uuid for gpu_uuid, _ in found)
    return [DeviceSlots(gpu_uuid=gpu_uuid, slots=count) for gpu_uuid, count in sorted(counts.items())]


class Kubelet:
    """The kubelet's PodResources socket; every call raises Retry where it gives no whole answer in time."""

    def __init__(self, socket_path: str, timeout_s: float = 10, uuid_by_index: UuidByIndex = no_uuid) -> None:
        self._socket_path = socket_path
        self._timeout_s = timeout_s
        self._uuid_by_index = uuid_by_index
        self.dynamic_claims = 0
        """Devices granted through DRA in the last answer; they are counted and not yet metered as grants."""

    def grants(self) -> list[Grant]:
        """Slots granted now. Empty just after a kubelet restart does not mean that nothing is granted."""
        answer = self._ask(LIST, pb.ListPodResourcesResponse())
        self.dynamic_claims = sum(
            len(claim.claim_resources)
            for pod in answer.pod_resources
            for container in pod.containers
            for claim in container.dynamic_resources
        )
        return grants_of(answer, self._uuid_by_index)

    def slots(self) -> list[DeviceSlots]:
        """Slots that can be granted of each GPU; empty, so not known, where the kubelet does not answer this."""
        try:
            answer = self._ask(ALLOCATABLE, pb.AllocatableResourcesResponse())
        except GrpcError as error:
            if error.code == UNIMPLEMENTED:
                return []
            raise
        return slots_of(answer.devices, self._uuid_by_index)

    def _ask(self, method: str, into: _Answer) -> _Answer:
        payload = unary_call(self._socket_path, method, b"", self._timeout_s)
        try:
            into.ParseFromString(payload)
        except DecodeError as error:
            raise Retry(
                f"gRPC {method} on {self._socket_path}: {len(payload)} bytes cannot be decoded: {error}"
            ) from error
        return into
