"""Many node windows as one set of columns: GPUs, readings, process rows, holders, segments of constant grants.

Here identities become numbers, once per distinct process and not once per row; everything after is arithmetic on
columns. A GPU number `g` is a GPU of one node's window; a holder number `h` is a holder on one such GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from schemas.ids import PSEUDO_HOLDERS, UNATTRIBUTED

from .divide import Ints, unique_rows
from .grants import Segment, Tenure, segments, slots_by_device, tenures
from .identity import Directory, Holder, pseudo
from .window import NodeWindow

DEVICE_FIELDS = (
    "read_us", "span_start_us", "span_end_us", "sample_count", "sample_sum_points", "samples_status",
    "processes_status", "lists_status", "energy_start_mj", "energy_end_mj", "energy_status", "mapping_seq", "flags",
    "mig_mode",
)  # fmt: skip
PROCESS_FIELDS = ("device_row", "pid", "start_ticks", "sm_util_points", "memory_used_bytes", "lists")


@dataclass(slots=True)
class Gpu:
    """A GPU in a node's window, its grants, and how many of them each holder has on the whole node."""

    window: NodeWindow
    gpu_uuid: str
    gpu_model: str
    segments: list[Segment]
    grants_known: bool
    granted_units: dict[str, int]
    granted_ever: frozenset[str]
    """Holders that the visible snapshots show a grant of, on any GPU and at any time."""


@dataclass(slots=True)
class Batch:
    """Columns of many node windows; `device` per reading row, `process` rows sorted by (reading, pid, start)."""

    gpus: list[Gpu] = field(default_factory=list)
    holders: list[tuple[int, Holder]] = field(default_factory=list)
    holder_numbers: dict[tuple[int, str], int] = field(default_factory=dict)
    gpu: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    priority: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    device: dict[str, Ints] = field(default_factory=dict)
    process: dict[str, Ints] = field(default_factory=dict)
    process_holder: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def holder(self, gpu: int, holder: Holder) -> int:
        """Number of a holder on a GPU; flags of the same holder by other ways are joined."""
        key = (gpu, holder.id)
        number = self.holder_numbers.get(key)
        if number is None:
            number = self.holder_numbers[key] = len(self.holders)
            self.holders.append((gpu, holder))
        elif not holder.flags <= self.holders[number][1].flags:
            known = self.holders[number][1]
            merged = {f: getattr(known, f) for f in known.__slots__} | {"flags": known.flags | holder.flags}
            self.holders[number] = (gpu, Holder(**merged))
        return number


def make_batch(windows: list[NodeWindow], directory_of: Callable[[NodeWindow], Directory]) -> Batch:
    """The columns of windows; process rows are joined to holders under the snapshot that their reading names."""
    batch = Batch()
    device_parts: list[dict[str, Any]] = []
    process_parts: list[dict[str, Any]] = []
    gpu_parts, priority_parts, lookups = [], [], []
    rows = 0
    for window in windows:
        directory = directory_of(window)
        numbers = _add_gpus(batch, window, directory)
        boots = {boot: i for i, boot in enumerate(window.boots)}
        ranked = sorted(window.readings, key=lambda r: (boots.get(r.boot_id, len(boots)), r.epoch_us, r.seq))
        snapshots = {(s.sender, s.snapshot.mapping_seq): s for s in reversed(window.snapshots)}
        for rank, reading in enumerate(ranked):
            size = len(reading.device["read_us"])
            gpu_parts.append(np.array([numbers[u] for u in reading.device["gpu_uuid"]], np.int64))
            priority_parts.append(np.full(size, rank, np.int64))
            device_parts.append(reading.device)
            process_parts.append(
                reading.process | {"device_row": reading.process["device_row"].astype(np.int64) + rows}
            )
            lookups.append((rows, (reading.boot_id, reading.epoch_us), snapshots, directory))
            rows += size
    batch.gpu = _join(gpu_parts)
    batch.priority = _join(priority_parts)
    batch.device = {f: _join([p[f] for p in device_parts]) for f in DEVICE_FIELDS}
    process = {f: _join([p[f] for p in process_parts]) for f in PROCESS_FIELDS}
    order = np.lexsort((process["start_ticks"], process["pid"], process["device_row"]))
    batch.process = {f: column[order] for f, column in process.items()}
    batch.process_holder = _join_holders(batch, lookups)
    return batch


def _join(parts: list[Any]) -> Ints:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def _add_gpus(batch: Batch, window: NodeWindow, directory: Directory) -> dict[str, int]:
    snapshots = [s.snapshot for s in window.snapshots]
    known = any(s.grants_status == "ok" for s in snapshots)
    slots = slots_by_device(snapshots, window.replicas)
    held: dict[str, list[Tenure]] = {}
    granted: dict[str, set[tuple[str, str]]] = {}
    all_tenures = tenures(snapshots, directory)
    for tenure in all_tenures:
        if tenure.start_us < window.end_us and tenure.end_us > window.start_us:
            held.setdefault(tenure.gpu_uuid, []).append(tenure)
            granted.setdefault(tenure.holder.id, set()).add((tenure.gpu_uuid, tenure.slot))
    units = {holder: len(slots_held) for holder, slots_held in granted.items()}
    ever = frozenset(tenure.holder.id for tenure in all_tenures)
    numbers: dict[str, int] = {}
    for device in window.devices:
        number = numbers[device.gpu_uuid] = len(batch.gpus)
        mine = held.get(device.gpu_uuid, [])
        parts = segments(mine, slots.get(device.gpu_uuid, window.replicas), window.start_us, window.end_us)
        batch.gpus.append(Gpu(window, device.gpu_uuid, device.gpu_model, parts, known, units, ever))
        for kind in PSEUDO_HOLDERS:
            batch.holder(number, pseudo(kind))
        for part in parts:
            for holder, _ in part.held:
                batch.holder(number, holder)
    return numbers


def _join_holders(batch: Batch, lookups: list[Any]) -> Ints:
    """Holder number of every process row; unattributed with its reason where the evidence is incomplete."""
    row, process = batch.process["device_row"], batch.process
    starts = np.array([first for first, *_ in lookups], np.int64)
    message = np.searchsorted(starts, row, side="right") - 1
    gpu, seq = batch.gpu[row], batch.device["mapping_seq"][row]
    sender = _numbers_of_senders(lookups)[message] if row.size else message
    first, inverse = unique_rows(gpu, sender, seq, process["pid"], process["start_ticks"])
    found = np.zeros(first.size, np.int64)
    for i, at in enumerate(first.tolist()):
        _, key, snapshots, directory = lookups[message[at]]
        pid, start = int(process["pid"][at]), int(process["start_ticks"][at])
        snapshot = snapshots.get((key, int(seq[at])))
        if snapshot is None:
            holder = pseudo(UNATTRIBUTED, "snapshot_missing")
        else:
            identity = snapshot.process(pid, start)
            missing = pseudo(UNATTRIBUTED, "process_gone" if start < 0 else "process_unknown")
            holder = directory.holder_of_process(identity) if identity else missing
        found[i] = batch.holder(int(gpu[at]), holder)
    return found[inverse]


def _numbers_of_senders(lookups: list[Any]) -> Ints:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for _, key, _, _ in lookups], np.int64)
