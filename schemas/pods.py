"""pod-events: cumulative records of pods and nodes from the API server. JSON, republished whole every hour.

A record carries all that has been seen of its object so far, so the newest below a cut is enough.
"""

import msgspec

from .limits import Name, Number, Units


class Owner(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One link of the owner chain; the last of a pod's list is the top."""

    kind: Name
    name: Name
    uid: Name = ""


class Run(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One life of a container; times have the API server's resolution of one second."""

    container_id: Name
    """64 hex digits without the runtime's prefix."""
    started_us: Number
    finished_us: Number | None = None


class ContainerRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A container of a pod and every run of it seen so far."""

    name: Name
    kind: Name = "main"
    """`main`, `init`, `sidecar` or `ephemeral`."""
    requests: dict[str, Units] = {}
    """GPU resources that its spec asks for, e.g. `nvidia.com/gpu: 1`; empty: it asks for none."""
    runs: list[Run] = []


class PodRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A pod as seen so far; identity is `uid`."""

    uid: Name
    namespace: Name
    name: Name
    node: Name
    phase: Name = ""
    created_us: Number = 0
    deleted_us: Number | None = None
    config_hash: Name = ""
    """Static pods: what the cgroup names instead of the uid (annotation kubernetes.io/config.hash)."""
    owners: list[Owner] = []
    labels: dict[str, str] = {}
    containers: list[ContainerRecord] = []
    seen_us: Number = 0


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A node as seen so far: labels, GPU capacity, deletion."""

    name: Name
    labels: dict[str, str] = {}
    capacity: dict[str, int] = {}
    created_us: Number = 0
    deleted_us: Number | None = None
    seen_us: Number = 0


def encode_record(record: PodRecord | NodeRecord) -> bytes:
    """JSON of a pod's or node's record."""
    return msgspec.json.encode(record)


def decode_pod(payload: bytes) -> PodRecord:
    """The pod's record; ValueError names the place and the fault."""
    return msgspec.json.decode(payload, type=PodRecord)


def decode_node(payload: bytes) -> NodeRecord:
    """The node's record; ValueError names the place and the fault."""
    return msgspec.json.decode(payload, type=NodeRecord)
