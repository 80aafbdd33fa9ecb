"""A fleet's samples as one JSON message each, and the sums that a job must find in them.

The same values as in the fleet's log (payload.py), with the pod already named: the join that the meter does is given
to the peers for nothing.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

from infra.bench.facts import pod_uid
from infra.bench.payload import VARIANTS, courses
from infra.bench.shape import CLUSTER, GPUS_A_NODE, START_US, FleetShape, node_hex
from schemas.ids import partition_of

WINDOW_S, LATENESS_S = 60, 10
SECONDS = WINDOW_S + LATENESS_S + 5
"""Event time of the samples: each pod's first window can be closed by its own samples."""
START_MS = START_US // 1000
PARTITIONS = 4
SAMPLES, SUMS = "samples", "sums"
"""Topics: what a peer reads, and what it writes."""


class Sums(NamedTuple):
    """Samples of the first window, and their points."""

    samples: int
    points: int


def shape_of(nodes: int) -> FleetShape:
    """The fleet of a peer."""
    return FleetShape(nodes=nodes, partitions=PARTITIONS)


def samples_in_all(shape: FleetShape) -> int:
    """Messages for a peer's fleet."""
    return SECONDS * shape.gpus * shape.processes


def samples(shape: FleetShape) -> Iterator[tuple[int, bytes, bytes]]:
    """(partition, key, payload) of every sample, in time's order; the key is the pod's uid."""
    places = [(gpu, process) for gpu in range(GPUS_A_NODE) for process in range(shape.processes)]
    points = _points(shape)
    nodes = []
    for node, name in enumerate(shape.node_names()):
        pods = [pod_uid(node_hex(node).decode(), g, p * shape.pods // shape.processes).encode() for g, p in places]
        ends = [b'"node":"%b","gpu":%d,"pod":"%b","sm_util":' % (name.encode(), g, pod) for (g, _), pod in
                zip(places, pods, strict=True)]  # fmt: skip
        nodes.append((partition_of(CLUSTER, name, shape.partitions), node, list(zip(pods, ends, strict=True))))
    for second in range(SECONDS):
        begin = b'{"ts":%d,' % (START_MS + second * 1000)
        for partition, node, rows in nodes:
            of_second = points[(node + 7 * (second // shape.flush_s)) % VARIANTS][second % shape.flush_s]
            for (pod, end), value in zip(rows, of_second, strict=True):
                yield partition, pod, b"%b%b%d}" % (begin, end, value)


def truth(shape: FleetShape) -> Sums:
    """What the first window holds in all."""
    points, total = _points(shape), 0
    for node in range(shape.nodes):
        for second in range(WINDOW_S):
            total += sum(points[(node + 7 * (second // shape.flush_s)) % VARIANTS][second % shape.flush_s])
    return Sums(WINDOW_S * shape.gpus * shape.processes, total)


def found(payloads: Iterator[bytes]) -> Sums:
    """What a peer's output says of the first window: records {"w": start in ms, "n": count, "s": points}."""
    count = points = 0
    for payload in payloads:
        record = json.loads(payload)
        if int(record["w"]) == START_MS:
            count, points = count + int(record["n"]), points + int(record["s"])
    return Sums(count, points)


def _points(shape: FleetShape) -> list[list[list[int]]]:
    """Points by variant, second of a message, and process; one that no row names used nothing."""
    _, points = courses(shape)
    table: list[list[list[int]]] = points.clip(0).reshape(VARIANTS, shape.flush_s, -1).tolist()
    return table
