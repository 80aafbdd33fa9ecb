"""Identities: holders, device ids and the partition of a node.

Laws: a holder id is a pure function of (pod uid, container name or id); a partition is a pure function of
(cluster, node, partition count) and the same for all input topics (tests/unit/schemas/test_ids.py).
"""

import hashlib

HOST = "host"
UNATTRIBUTED = "unattributed"
UNALLOCATED = "unallocated"
UNOBSERVED = "unobserved"
PSEUDO_HOLDERS = (HOST, UNATTRIBUTED, UNALLOCATED, UNOBSERVED)
FREE_SLICES = "/free"
"""Ends the name of what of a GPU in MIG mode is in no instance."""
POD = "pod"
VIOLATION = "violation"
"""Holder kinds: `pod`, the four pseudo-holders, and `violation` for a row that reports a broken law."""


def partition_of(cluster: str, node: str, partition_count: int) -> int:
    """Partition of everything about a node, in every input topic: BLAKE2b of `cluster NUL node`.

    A cryptographic mixer, since CRC-32 is linear and puts pool-0, pool-1 and pool-2 on one partition.
    """
    digest = hashlib.blake2b(f"{cluster}\0{node}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partition_count


def message_key(cluster: str, node: str) -> bytes:
    """Kafka key of a node's messages."""
    return f"{cluster}/{node}".encode()


def holder_of(pod_uid: str, container_name: str, container_id: str = "") -> str:
    """Holder id of a container: by its name, or by its id while no pod event has told the name."""
    return f"{pod_uid}/{container_name}" if container_name else f"{pod_uid}/id:{container_id[:12]}"


def device_of_slot(device_id: str) -> str:
    """Device of a kubelet device id: `GPU-x::3` is slot 3 of `GPU-x`, `MIG-x` is its own device."""
    return device_id.rsplit("::", 1)[0]
