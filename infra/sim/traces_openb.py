"""openb pod lists (2023): pods with a GPU request (whole GPUs or thousandths of one) and their times in seconds.

The list has requests, no use: the use is generated, about the request on average, so it is a load for packing and
for pods' comings and goings. The simulated hours are the busiest of the list. Tested in
tests/unit/infra/sim/test_traces.py.
"""

import csv
from dataclasses import dataclass

from schemas.units import US_PER_HOUR

from .fleet import Fleet
from .model import SimCluster, SimContainer, SimPod, SimProcess
from .timeline import Load
from .workload import LoadKind, Workload, generated_load

DEFAULT_HOURS = 1.0
NODES, GPUS, REPLICAS = 3, 8, 10
PROCESS_AFTER_US = 300_000


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    gpus: int
    milli: int
    qos: str
    start_us: int
    end_us: int


def _rows(text: str) -> list[_Row]:
    found = []
    for row in csv.DictReader(text.splitlines()):
        if int(row["num_gpu"]) and row["scheduled_time"] and row["deletion_time"]:
            start_us, end_us = (round(float(row[key]) * 1e6) for key in ("scheduled_time", "deletion_time"))
            milli = int(row["gpu_milli"])
            found.append(_Row(row["name"], int(row["num_gpu"]), milli, row.get("qos", ""), start_us, end_us))
    if not found:
        raise ValueError("no scheduled pod with a GPU")
    return sorted(found, key=lambda item: (item.start_us, item.name))


def _busiest_us(rows: list[_Row], length_us: int) -> int:
    """Start of the stretch of this length in which most pods start; the earliest of equals."""
    starts = [row.start_us for row in rows]
    best, best_count, high = starts[0], 0, 0
    for low, start_us in enumerate(starts):
        while high < len(starts) and starts[high] < start_us + length_us:
            high += 1
        if high - low > best_count:
            best, best_count = start_us, high - low
    return best


def openb_cluster(
    text: str, *, cluster: str, seed: int, start_us: int, hours: float | None
) -> tuple[SimCluster, Workload]:
    """The fleet of three nodes of eight GPUs in ten replicas with the pods that start in the busiest hours."""
    length_us = round((DEFAULT_HOURS if hours is None else hours) * US_PER_HOUR)
    rows = _rows(text)
    shift_us = start_us - _busiest_us(rows, length_us)
    fleet = Fleet(cluster, seed, start_us, start_us + length_us, NODES, GPUS, REPLICAS)
    loads: dict[str, Load] = {}
    pods: list[SimPod] = []
    for row in rows:
        started_us, finished_us = row.start_us + shift_us, row.end_us + shift_us
        if start_us <= started_us < fleet.end_us and finished_us > started_us + 2 * PROCESS_AFTER_US:
            placed = _pod(fleet, row, started_us, finished_us if finished_us < fleet.end_us else None, loads)
            if placed is None:
                fleet.left_out.append(row.name)
            else:
                pods.append(placed)
    return fleet.cluster(pods), Workload(loads, seed=seed, notes=fleet.notes())


def _pod(fleet: Fleet, row: _Row, started_us: int, finished_us: int | None, loads: dict[str, Load]) -> SimPod | None:
    slots_each = max(1, -(-row.milli * REPLICAS // 1000))
    place = fleet.place(row.gpus, slots_each, started_us, finished_us)
    if place is None:
        return None
    begin_us = started_us + PROCESS_AFTER_US
    kind: LoadKind = "inference" if row.qos == "LS" else "training"
    processes = []
    for gpu_uuid in place.gpu_uuids:
        name = f"{row.name}/{gpu_uuid}"
        until_us = fleet.end_us if finished_us is None else finished_us
        loads[name] = generated_load(kind, row.milli / 1000, name, 0, begin_us, until_us)
        memory_bytes = fleet.memory_share_bytes * slots_each
        processes.append(SimProcess(fleet.pid(place.node), begin_us, finished_us, gpu_uuid, name, memory_bytes))
    container = SimContainer(
        name="main",
        container_id=fleet.container_id(row.name),
        started_us=started_us,
        finished_us=finished_us,
        requests={place.resource: len(place.slots)},
        slots=place.slots,
        processes=tuple(processes),
    )
    return fleet.pod(row.name, "openb", place.node, container)
