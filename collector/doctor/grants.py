"""Checks of the kubelet's PodResources socket: whether it answers, and whether it speaks of GPUs at all.

Asks only through the agent's own client. Tested in tests/unit/collector/test_doctor.py.
"""

from collections.abc import Collection

from collector.errors import Retry
from collector.kubelet import Kubelet
from schemas.snapshots import Grant

from .finding import Check, Finding

KUBELET = Check(
    "kubelet",
    "who was granted which GPU is unknown (flag grant_unknown): held time is null, and idle time is unallocated",
    "Mount the host's directory /var/lib/kubelet/pod-resources, and see that the kubelet runs.",
)
GRANTS = Check(
    "granted devices",
    "GPUs that pods hold look free: their held time is missing, and idle time is unallocated, without a flag",
    "See that NVIDIA's device plugin runs on this node and has registered with the kubelet.",
)
_FIXES: tuple[tuple[type[BaseException], str], ...] = (
    (PermissionError, "Run the agent as root: the socket is root's alone (and see what SELinux or AppArmor denies)."),
    (TimeoutError, "See why the kubelet is slow or stuck; GPUMETER_KUBELET_TIMEOUT_US is the longest wait."),
    (ConnectionRefusedError, "Restart the agent's pod with the directory mounted, not the socket: this one is dead."),
)


def answering(kubelet: Kubelet, into: list[Grant]) -> Finding:
    """Whether the kubelet says who was granted what; its grants are put into `into`."""
    try:
        into += kubelet.grants()
    except Retry as error:
        fix = next((fix for kind, fix in _FIXES if isinstance(error.__cause__, kind)), "")
        return KUBELET.fault(str(error), fix=fix)
    holders = {(grant.namespace, grant.pod_name, grant.container_name) for grant in into}
    return KUBELET.ok(f"answers: {len(into)} grants to {len(holders)} containers")


def granted_devices(kubelet: Kubelet, grants: list[Grant], known: Collection[str]) -> Finding:
    """Whether what it grants are GPUs that the driver knows; `known` are the driver's UUIDs, empty: not known."""
    if kubelet.dynamic_claims:
        return GRANTS.warning(
            f"{kubelet.dynamic_claims} devices are granted by resource claims (DRA)",
            "claims are counted, and not metered as grants: held time of their pods is missing",
            "Grant GPUs through the device plugin where held time must be known.",
        )
    try:
        slots = kubelet.slots()
    except Retry as error:
        return GRANTS.warning(
            str(error), "how many slots each GPU has is unknown: idle time cannot be divided by slots", KUBELET.fix
        )
    if not grants and not slots:
        return GRANTS.warning("the kubelet answers, and names no NVIDIA device, neither granted nor free")
    strangers = sorted({grant.gpu_uuid for grant in grants} - set(known)) if known else []
    if strangers:
        return GRANTS.warning(
            f"granted, and not known to the driver here: {', '.join(strangers)}",
            "held time of these devices has no use beside it, and their use no grant",
            "Restart the device plugin: it still names devices of before a change (MIG layout, exchanged GPU).",
        )
    return GRANTS.ok(f"{sum(one.slots for one in slots)} slots on {len(slots)} devices, {len(grants)} granted")
