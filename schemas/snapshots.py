"""pod-mappings: numbered snapshots of who is who on a node. JSON.

A reading names the snapshot it was taken under (`mapping_seq`), so the join is by reference and not by arrival.
"""

import msgspec

from .limits import Name, Number, Units

CONTAINER = "container"
HOST_PROCESS = "host"
UNKNOWN_PROCESS = "unknown"


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A process is (pid, start time in clock ticks since boot); its container comes from its cgroup."""

    pid: Number
    start_ticks: Number
    kind: Name
    """`container`, `host` (in no pod) or `unknown` (see reason)."""
    pod_uid: Name = ""
    """API uid, or the config hash of a static pod (32 hex digits), as the cgroup names it; may be empty."""
    container_id: Name = ""
    """64 hex digits; may be empty."""
    reason: Name = ""
    """Why it is unknown: `gone`, `unmapped`, `unreadable`."""


class Grant(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A device slot that the kubelet gave to a container (PodResources v1 has no pod uid before 1.37)."""

    gpu_uuid: Name
    """GPU or MIG instance."""
    slot: Name
    """The kubelet's device id, `GPU-x` or `GPU-x::3`: one slot is granted to one container at a time."""
    resource: Name
    namespace: Name
    pod_name: Name
    container_name: Name
    pod_uid: Name = ""


class DeviceSlots(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many slots the kubelet can grant of a device: 1 for a whole GPU, n for n replicas."""

    gpu_uuid: Name
    slots: Units


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Who is who on a node at `taken_us`; `mapping_seq` grows by one with each snapshot of an epoch."""

    mapping_seq: Number
    taken_us: Number
    processes: list[ProcessIdentity]
    grants: list[Grant]
    slots: list[DeviceSlots]
    grants_status: Name = "ok"
    """`ok`, or why the kubelet's grants are not known: `unavailable`, `empty_after_restart`."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """JSON of a snapshot."""
    return msgspec.json.encode(snapshot)


def decode_snapshot(payload: bytes) -> Snapshot:
    """The snapshot; msgspec.DecodeError or ValidationError (both ValueError) names the place and the fault."""
    return msgspec.json.decode(payload, type=Snapshot)
