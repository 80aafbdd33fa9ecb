"""GenTD26: one GPU duty cycle (percent) per container every 57 s, 143 containers, 22.8 hours.

The duty at a tick is the demand until the next; a container lives from its first to its last tick and its process
only while there are ticks, so a hole in the trace ends the process and a new one comes after it. About six containers
share a GPU, so it saturates at times. Tested in tests/unit/infra/sim/test_traces.py.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .fleet import Fleet
from .model import SimCluster, SimContainer, SimPod, SimProcess
from .timeline import Floats, Ints, Load
from .workload import Workload

TICK_US = 57_000_000
NODES, GPUS, REPLICAS = 3, 8, 8


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    ticks_us: Ints
    values: Floats


def _series(text: str, first_us: int | None = None) -> tuple[list[_Series], int]:
    """Series by container in order of first tick, and the trace's own first time."""
    rows: dict[str, list[tuple[int, float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        tick_us = round(float(row["timestamp_anon"]) * 1e6)
        rows.setdefault(row["container_ip"], []).append((tick_us, float(row["value"])))
    if not rows:
        raise ValueError("no rows")
    first_us = min(min(pairs)[0] for pairs in rows.values()) if first_us is None else first_us
    found = []
    for name, pairs in rows.items():
        pairs.sort()
        ticks_us = np.array([tick_us for tick_us, _ in pairs], np.int64) - first_us
        found.append(_Series(name, ticks_us, np.array([value for _, value in pairs], np.float64)))
    return sorted(found, key=lambda series: (int(series.ticks_us[0]), series.name)), first_us


def gentd_cluster(
    text: str, memory: str | None, *, cluster: str, seed: int, start_us: int, hours: float | None
) -> tuple[SimCluster, Workload]:
    """The fleet of three nodes of eight GPUs in eight replicas with every container of the trace on it."""
    duties, first_us = _series(text)
    length_us = max(int(item.ticks_us[-1]) for item in duties) + TICK_US
    if hours is not None:
        length_us = min(length_us, round(hours * 3.6e9))
    memories = {item.name: item for item in _series(memory, first_us)[0]} if memory else {}
    fleet = Fleet(cluster, seed, start_us, start_us + length_us, NODES, GPUS, REPLICAS)
    loads: dict[str, Load] = {}
    pods: list[SimPod] = []
    for series in duties:
        if series.ticks_us[0] >= length_us:
            continue
        placed = _pod(fleet, series, memories.get(series.name), loads)
        if placed is None:
            fleet.left_out.append(series.name)
        else:
            pods.append(placed)
    return fleet.cluster(pods), Workload(loads, seed=seed, notes=fleet.notes())


def _pod(fleet: Fleet, series: _Series, memory: _Series | None, loads: dict[str, Load]) -> SimPod | None:
    name = f"gentd-{series.name[:12]}"
    started_us = fleet.start_us + int(series.ticks_us[0])
    finished_us = fleet.start_us + int(series.ticks_us[-1]) + TICK_US
    end_us = finished_us if finished_us < fleet.end_us else None
    place = fleet.place(1, 1, started_us, end_us)
    if place is None:
        return None
    loads[name] = Load(fleet.start_us + series.ticks_us, np.clip(series.values / 100.0, 0.0, 1.0))
    memory_bytes = min(int(np.median(memory.values)) if memory else 4 << 30, fleet.memory_share_bytes)
    processes = tuple(
        SimProcess(fleet.pid(place.node), first_us, last_us, place.gpu_uuids[0], name, memory_bytes)
        for first_us, last_us in _runs(fleet.start_us + series.ticks_us, fleet.end_us)
    )
    container = SimContainer(
        name="main",
        container_id=fleet.container_id(name),
        started_us=started_us,
        finished_us=end_us,
        requests={place.resource: 1},
        slots=place.slots,
        processes=processes,
    )
    return fleet.pod(name, "gentd26", place.node, container)


def _runs(ticks_us: npt.NDArray[np.int64], end_us: int) -> Iterator[tuple[int, int | None]]:
    """Maximal stretches [first, last) of unbroken ticks that begin before the end; None: still there at the end."""
    edges = np.flatnonzero(np.diff(ticks_us, prepend=ticks_us[0]) > TICK_US * 1.5)
    for first, last in zip([0, *edges], [*edges, len(ticks_us)], strict=True):
        stop_us = int(ticks_us[last - 1]) + TICK_US
        if ticks_us[first] < end_us:
            yield int(ticks_us[first]), stop_us if stop_us < end_us else None
