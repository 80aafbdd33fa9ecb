"""Snapshots, pods and nodes of a fleet as bytes: encoded once, a node's own digits put in for each message.

Pod events are what the watcher would have sent at the start (its hourly republication lies outside the log).
"""

from collections.abc import Iterator

from infra.bench.payload import gpu_uuid, pid_of, ticks_of
from infra.bench.shape import GPUS_A_NODE, FleetShape, node_hex, node_name
from schemas.pods import ContainerRecord, NodeRecord, Owner, PodRecord, Run, encode_record
from schemas.snapshots import DeviceSlots, Grant, ProcessIdentity, Snapshot, encode_snapshot

_MARK, _NAME = "%%%%%%%%", "@@@@@@@@@@"
_SEQ, _TAKEN = 8_765_432_101, 1_234_567_890_123_456
"""Numbers that stand for the sequence and the time in a template; as wide as the real ones or cut to them."""
_AGE_US, _STARTING_US = 3_600_000_000, 5_000_000
"""How long before the start the pods began to run, and how long before that they were made."""
RESOURCE = "nvidia.com/gpu"


class Facts:
    """What pod-mappings and pod-events say of a fleet's nodes."""

    def __init__(self, shape: FleetShape) -> None:
        self._snapshot = encode_snapshot(_snapshot(shape))
        self._pods = [encode_record(_pod(shape, gpu, pod)) for gpu in range(GPUS_A_NODE) for pod in range(shape.pods)]
        slots = {RESOURCE: GPUS_A_NODE * shape.pods}
        labels = {"nvidia.com/gpu.replicas": str(shape.pods), "nvidia.com/gpu.product": "NVIDIA-H200"}
        node = NodeRecord(name=_NAME, labels=labels, capacity=slots, created_us=0, seen_us=shape.start_us)
        self._node = encode_record(node)

    def snapshot(self, node: int, mapping_seq: int, taken_us: int) -> bytes:
        """A node's numbered snapshot."""
        text = self._snapshot.replace(_MARK.encode(), node_hex(node))
        return text.replace(b"%d" % _SEQ, b"%d" % mapping_seq).replace(b"%d" % _TAKEN, b"%d" % taken_us)

    def pods(self, node: int) -> Iterator[bytes]:
        """The records of a node's pods."""
        digits, name = node_hex(node), node_name(node).encode()
        for pod in self._pods:
            yield pod.replace(_MARK.encode(), digits).replace(_NAME.encode(), name)

    def node(self, node: int) -> bytes:
        """The node's own record."""
        return self._node.replace(_NAME.encode(), node_name(node).encode())


def pod_uid(node_digits: str, gpu: int, pod: int) -> str:
    """Uid of a pod."""
    return f"{node_digits}-77aa-4c3d-8e21-{gpu:04x}{pod:08x}"


def _container_id(gpu: int, pod: int) -> str:
    return f"{_MARK}{gpu * 1000 + pod:08x}" + "9f3c51d07ab24e6680d1c7e5a2b9f4380c6d2e17a95b4c83"


def _pod_name(gpu: int, pod: int) -> str:
    return f"train-{_MARK}-{gpu}-{pod}"


def _snapshot(shape: FleetShape) -> Snapshot:
    places = [(gpu, pod) for gpu in range(GPUS_A_NODE) for pod in range(shape.pods)]
    processes = [
        ProcessIdentity(
            pid=pid_of(gpu, process),
            start_ticks=ticks_of(pid_of(gpu, process)),
            kind="container",
            pod_uid=pod_uid(_MARK, gpu, process * shape.pods // shape.processes),
            container_id=_container_id(gpu, process * shape.pods // shape.processes),
        )
        for gpu in range(GPUS_A_NODE)
        for process in range(shape.processes)
    ]
    grants = [
        Grant(
            gpu_uuid=gpu_uuid(_MARK, gpu),
            slot=f"{gpu_uuid(_MARK, gpu)}::{pod}",
            resource=RESOURCE,
            namespace=f"team-{gpu}",
            pod_name=_pod_name(gpu, pod),
            container_name="main",
        )
        for gpu, pod in places
    ]
    slots = [DeviceSlots(gpu_uuid=gpu_uuid(_MARK, gpu), slots=shape.pods) for gpu in range(GPUS_A_NODE)]
    return Snapshot(mapping_seq=_SEQ, taken_us=_TAKEN, processes=processes, grants=grants, slots=slots)


def _pod(shape: FleetShape, gpu: int, pod: int) -> PodRecord:
    run = Run(container_id=_container_id(gpu, pod), started_us=shape.start_us - _AGE_US)
    return PodRecord(
        uid=pod_uid(_MARK, gpu, pod),
        namespace=f"team-{gpu}",
        name=_pod_name(gpu, pod),
        node=_NAME,
        phase="Running",
        created_us=shape.start_us - _AGE_US - _STARTING_US,
        owners=[Owner(kind="Job", name=f"train-{_MARK}")],
        labels={"app": "train", "team": f"team-{gpu}"},
        containers=[ContainerRecord(name="main", requests={RESOURCE: 1}, runs=[run])],
        seen_us=shape.start_us,
    )
