"""Names of simulated things: UUIDs, container ids and pids, each a pure function of seed and name.

So every process of a simulation, started by itself, builds the same cluster.
"""

import hashlib
from collections.abc import Iterator


def hex_of(seed: int, name: str, digits: int) -> str:
    """Hex digits of a name, at most 128."""
    return hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=64).hexdigest()[:digits]


def uuid_of(seed: int, name: str) -> str:
    """UUID of a name, 8-4-4-4-12."""
    text = hex_of(seed, name, 32)
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def gpu_uuid_of(seed: int, node: str, index: int) -> str:
    """NVML UUID of a GPU of a node."""
    return f"GPU-{uuid_of(seed, f'{node}/gpu/{index}')}"


def container_id_of(seed: int, name: str) -> str:
    """Container id, 64 hex digits."""
    return hex_of(seed, f"container/{name}", 64)


def pids(first: int = 4001) -> Iterator[int]:
    """Process ids of a node, never the same twice."""
    pid = first
    while True:
        yield pid
        pid += 7
