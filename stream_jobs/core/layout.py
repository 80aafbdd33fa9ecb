"""Holders and grants of one node's window as columns, numbered from 0: who is on which GPU, who holds which slots when.

Made by looking at identities one by one, so it is kept with the node and used again while nothing changes
(layouts.py). Tested in tests/property/test_meter.py against the oracle.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from schemas.ids import HOST, POD, PSEUDO_HOLDERS, UNALLOCATED, UNATTRIBUTED, UNOBSERVED

from .divide import Ints
from .grants import GrantLists, Segment, Tenure, segments, tenures
from .identity import FOREVER_US, Directory, Holder, pseudo
from .window import NodeWindow, SeenSnapshot

KINDS = (POD, HOST, UNATTRIBUTED, UNALLOCATED, UNOBSERVED)
IDENTITY = (
    "holder", "holder_kind", "namespace", "pod_name", "pod_uid", "container_name", "owner_kind", "owner_name"
)  # fmt: skip


GPU_COLUMNS = ("slots", "overcommitted", *PSEUDO_HOLDERS)
"""Per GPU; of the pseudo-holders their numbers."""
SEGMENT_COLUMNS = ("gpu", "start_us", "end_us", "slots", "held_first", "held_count")
"""Per time of constant grants of a GPU, relative to the window's start; `held_*` are its holders in order."""
_PSEUDO = tuple(pseudo(kind) for kind in PSEUDO_HOLDERS)
TO_THE_END = -1
"""End of a segment that ends where its window does, however long that is."""
HELD_COLUMNS = ("holder", "slots")
HOLDER_COLUMNS = (
    "gpu", "kind", "units", "units_known", "granted", "ever_granted", "flag", "order"
)  # fmt: skip
"""Per holder: its place in KINDS, what its spec requests, slots that it has on the whole node, whether the visible
snapshots show a grant of it on any GPU at any time, its place in `flags`; `order` sorts holders by (GPU, id)."""


@dataclass(slots=True)
class Laid:
    """A layout as matrices, whose rows are *_COLUMNS; `names` are the holders' in their `order`."""

    grants_known: bool
    gpus: Ints
    segments: Ints
    held: Ints
    holders: Ints
    flags: list[frozenset[str]]
    names: pa.RecordBatch


@dataclass(slots=True)
class Layout:
    """GPUs, grants and holders of a node's window; holders are added as processes are joined to them."""

    gpus: int
    grants_known: bool
    overcommitted: list[bool]
    slots: list[int]
    segments: list[tuple[int, Segment]]
    granted: dict[str, int]
    ever_granted: frozenset[str]
    holders: list[tuple[int, Holder]] = field(default_factory=list)
    numbers: dict[tuple[int, str], int] = field(default_factory=dict)

    def holder(self, gpu: int, holder: Holder) -> int:
        """Number of a holder on a GPU; flags of the same holder by other ways are joined."""
        key = (gpu, holder.id)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.holders)
            self.holders.append((gpu, holder))
        elif not holder.flags <= self.holders[number][1].flags:
            known = self.holders[number][1]
            self.holders[number] = (gpu, known._replace(flags=known.flags | holder.flags))
        return number

    def join(
        self, gpu: int, snapshot: SeenSnapshot | None, keys: Iterable[tuple[int, int]], pods: Directory
    ) -> list[int]:
        """Holder numbers of processes (pid, start) on a GPU under the snapshot that their reading names, if known."""
        return [self.holder(gpu, _holder(snapshot, pid, start, pods)) for pid, start in keys]

    def laid(self, window: NodeWindow) -> Laid:
        """The layout as matrices."""
        rows: list[tuple[int, ...]] = []
        held: list[tuple[int, int]] = []
        for g, part in self.segments:
            end_us = part.end_us - window.start_us if part.end_us < window.end_us else TO_THE_END
            rows.append((g, part.start_us - window.start_us, end_us, part.slots, len(held), len(part.held)))
            held += [(self.numbers[g, holder.id], count) for holder, count in part.held]
        order = sorted(range(len(self.holders)), key=lambda n: (self.holders[n][0], self.holders[n][1].id))
        places: dict[frozenset[str], int] = {}
        holders = []
        for n, (g, h) in enumerate(self.holders):
            units = (h.requested_units or 0, h.requested_units is not None)
            grants = (self.granted.get(h.id, 0), h.id in self.ever_granted)
            holders.append((g, KINDS.index(h.kind), *units, *grants, places.setdefault(h.flags, len(places)), order[n]))
        pseudo_holders = [[self.numbers[g, kind] for g in range(self.gpus)] for kind in PSEUDO_HOLDERS]
        return Laid(
            self.grants_known,
            np.array([self.slots, self.overcommitted, *pseudo_holders], np.int64),
            _matrix(rows, SEGMENT_COLUMNS),
            _matrix(held, HELD_COLUMNS),
            _matrix(holders, HOLDER_COLUMNS),
            list(places),
            identities([self.holders[n][1] for n in order]),
        )


def _matrix(rows: Sequence[tuple[int, ...]], columns: Sequence[str]) -> Ints:
    return np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, len(columns)).T)


def identities(holders: Sequence[Holder]) -> pa.RecordBatch:
    """Names of holders, a row each."""
    columns = list(zip(*holders, strict=True))[: len(IDENTITY)] if holders else [()] * len(IDENTITY)
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], IDENTITY)


def _holder(snapshot: SeenSnapshot | None, pid: int, start_ticks: int, directory: Directory) -> Holder:
    """Who a process belongs to; unattributed with its reason where the evidence is incomplete."""
    if snapshot is None:
        return pseudo(UNATTRIBUTED, "snapshot_missing")
    identity = snapshot.process(pid, start_ticks)
    if identity is None:
        return pseudo(UNATTRIBUTED, "process_gone" if start_ticks < 0 else "process_unknown")
    return directory.holder_of_process(identity)


def grants_layout(window: NodeWindow, directory: Directory, lists: GrantLists) -> tuple[Layout, tuple[int, int]]:
    """GPUs, pseudo-holders and the holders of grants of a window, and between which times they stay as they are."""
    slots = lists.slots_by_device()
    held: dict[str, list[Tenure]] = {}
    granted: dict[str, set[tuple[str, str]]] = {}
    all_tenures = tenures((s.snapshot for s in window.snapshots), directory)
    for tenure in all_tenures:
        if tenure.start_us < window.end_us and tenure.end_us > window.start_us:
            held.setdefault(tenure.gpu_uuid, []).append(tenure)
            granted.setdefault(tenure.holder.id, set()).add((tenure.gpu_uuid, tenure.slot))
    lines = [
        segments(held.get(d.gpu_uuid, []), slots.get(d.gpu_uuid, window.replicas), window.start_us, window.end_us)
        for d in window.devices
    ]
    layout = Layout(
        gpus=len(window.devices),
        grants_known=lists.known,
        overcommitted=[any(sum(n for _, n in s.held) > s.slots for s in line) for line in lines],
        slots=[line[0].slots for line in lines],
        segments=[(g, part) for g, line in enumerate(lines) for part in line],
        granted={holder: len(slots_held) for holder, slots_held in granted.items()},
        ever_granted=frozenset(tenure.holder.id for tenure in all_tenures),
    )
    for g in range(layout.gpus):
        for holder in _PSEUDO:
            layout.holder(g, holder)
    for g, part in layout.segments:
        for holder, _ in part.held:
            layout.holder(g, holder)
    timeless = directory.tenures_of is not None and directory.tenures_of[1] is all_tenures
    return layout, _unchanged(all_tenures, window.start_us, window.end_us) if timeless else (0, 0)


def _unchanged(all_tenures: Sequence[Tenure], start_us: int, end_us: int) -> tuple[int, int]:
    """The time around [start, end) in which no grant begins or ends; (0, 0) where one does within."""
    edges = {edge for tenure in all_tenures for edge in (tenure.start_us, tenure.end_us)}
    if any(start_us < edge < end_us for edge in edges):
        return 0, 0
    before, behind = (edge for edge in edges if edge <= start_us), (edge for edge in edges if edge >= end_us)
    return max(before, default=-FOREVER_US), min(behind, default=FOREVER_US)
