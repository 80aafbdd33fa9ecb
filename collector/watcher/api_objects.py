"""The part of the API server's objects that the watcher reads, as msgspec structs; all other fields are skipped.

Owns the shapes and the reading of times, ids and quantities; must not know what becomes of them. Kubernetes writes
null where Go has no value, so null is allowed wherever it was seen (tests/unit/collector/test_watcher_objects.py).
"""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_AMOUNT = re.compile(r"mem|core|percentage|priority")
_SUFFIXES: dict[str, int | Decimal] = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_SUFFIXES |= {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_SUFFIXES |= {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


class OwnerReference(msgspec.Struct, frozen=True):
    """Who made the object."""

    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Identity and times of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class Resources(msgspec.Struct, frozen=True):
    """What a container asks for, as quantities."""

    requests: dict[str, str | int] | None = None
    limits: dict[str, str | int] | None = None


class ContainerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A container as asked for; `restart_policy` Always makes an init container a sidecar."""

    name: str
    resources: Resources | None = None
    restart_policy: str | None = None


class Running(msgspec.Struct, frozen=True, rename="camel"):
    """Since when it runs."""

    started_at: datetime | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """A run that ended."""

    container_id: str = msgspec.field(default="", name="containerID")
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(msgspec.Struct, frozen=True):
    """At most one is there; neither: it waits."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """A container as the kubelet last told."""

    name: str
    container_id: str = msgspec.field(default="", name="containerID")
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Where the pod is and what it is made of."""

    node_name: str = ""
    containers: list[ContainerSpec] | None = None
    init_containers: list[ContainerSpec] | None = None
    ephemeral_containers: list[ContainerSpec] | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How the pod is."""

    phase: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None


class Pod(msgspec.Struct, frozen=True):
    """A pod of the API server."""

    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeStatus(msgspec.Struct, frozen=True):
    """What a node has."""

    capacity: dict[str, str | int] | None = None


class Node(msgspec.Struct, frozen=True):
    """A node of the API server."""

    metadata: Meta
    status: NodeStatus = NodeStatus()


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Version of a list and the token of its next chunk."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch; what `object` is depends on `type`."""

    type: str
    object: msgspec.Raw


class Status(msgspec.Struct, frozen=True):
    """The API server's error."""

    code: int = 0
    reason: str = ""
    message: str = ""


class VersionOnly(msgspec.Struct, frozen=True):
    """A bookmark: nothing but a version."""

    metadata: Meta


def time_us(time: datetime | None) -> int | None:
    """Microseconds since 1970; None where no time was told."""
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def container_id(told: str) -> str:
    """64 hex digits of `containerd://<id>` and the like; empty while there is no container."""
    return told.rpartition("://")[2]


def quantity(text: str | int) -> int:
    """Whole number of a Kubernetes quantity, rounded up as the API server rounds; ArithmeticError where it is none."""
    digits = str(text)
    for suffix, factor in _SUFFIXES.items():
        if digits.endswith(suffix):
            exact = Decimal(digits.removesuffix(suffix)) * factor
            break
    else:
        exact = Decimal(digits)
    return int(exact.to_integral_value(rounding="ROUND_CEILING"))


def gpu_quantities(*resources: dict[str, str | int] | None) -> dict[str, int]:
    """GPU resources among quantities; the first mention of a name counts.

    Megabytes, cores and per cent asked beside a number of GPUs (HAMi's nvidia.com/gpumem, Volcano's vgpu-memory) are
    not more GPUs; where nothing else is asked they stay, since the pod did ask.
    """
    found: dict[str, int] = {}
    for named in resources:
        for name, amount in (named or {}).items():
            if is_gpu_resource(name) and name not in found:
                found[name] = quantity(amount)
    devices = {name: count for name, count in found.items() if not _AMOUNT.search(name.partition("/")[2])}
    return devices or found


def is_gpu_resource(name: str) -> bool:
    """Whether an extended resource is a GPU or a part of one: NVIDIA's, and any other whose name says gpu."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and (domain == "nvidia.com" or "gpu" in name)
