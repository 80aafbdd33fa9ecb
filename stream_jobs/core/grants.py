"""Grants over time: which container held which slot of a device, and when, as the records below a cut tell.

A (slot, container) pair lives from its container's start to its end by pod events, else from the first to the last
snapshot that shows it; a later grant of the slot ends an earlier one. Law: the same as the oracle's, row by row
(tests/property/test_meter.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import is_

from schemas.pods import PodRecord
from schemas.snapshots import DeviceSlots, Grant, Snapshot

from .identity import FOREVER_US, Directory, Holder


@dataclass(frozen=True, slots=True)
class Tenure:
    """A slot of a device held by a holder over [start, end)."""

    gpu_uuid: str
    slot: str
    holder: Holder
    start_us: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A time with constant grants: `held` are (holder, slots) in holder order, of `slots` in all."""

    start_us: int
    end_us: int
    held: tuple[tuple[Holder, int], ...]
    slots: int


@dataclass(frozen=True, slots=True)
class GrantLists:
    """What a window needs of its snapshots: distinct lists of grants, and slots as the newest tells them."""

    grants: list[list[Grant]]
    slots: list[DeviceSlots]
    known: bool
    replicas: int

    @classmethod
    def of(cls, snapshots: Iterable[Snapshot], replicas: int) -> "GrantLists":
        """Those of snapshots, and the slots of a GPU by the node's label."""
        runs: dict[int, list[Grant]] = {}
        slots: list[DeviceSlots] = []
        newest = None
        for snapshot in snapshots:
            if snapshot.grants_status == "ok":
                runs[id(snapshot.grants)] = snapshot.grants
            at = (snapshot.taken_us, snapshot.mapping_seq)
            if snapshot.slots and (newest is None or at >= newest):
                newest, slots = at, snapshot.slots
        return cls(list(runs.values()), slots, bool(runs), replicas)

    def equals(self, other: "GrantLists") -> bool:
        """Whether the same lists were granted and the same told of slots."""
        same = len(self.grants) == len(other.grants) and self.known is other.known and self.replicas == other.replicas
        return same and all(map(is_, self.grants, other.grants)) and self.slots == other.slots

    def slots_by_device(self) -> dict[str, int]:
        """Slots of each device: as told, else the node's label, else 1; never below what was granted."""
        said = {device.gpu_uuid: device.slots for device in self.slots}
        seen: dict[str, set[str]] = {}
        for grants in self.grants:
            for grant in grants:
                seen.setdefault(grant.gpu_uuid, set()).add(grant.slot)
        devices = said.keys() | seen.keys()
        return {gpu: max(said.get(gpu, self.replicas), len(seen.get(gpu, ())), 1) for gpu in devices}


def tenures(snapshots: Iterable[Snapshot], directory: Directory) -> list[Tenure]:
    """All tenures that the visible snapshots show, later grants of a slot ending earlier ones.

    Where every grant has one pod and that pod's events tell its lives, the times of the snapshots do not matter, and
    the answer is remembered with the directory.
    """
    runs = grant_runs(snapshots)
    lists = [grants for grants, _ in runs]
    known = directory.tenures_of
    if known and len(known[0]) == len(lists) and all(a is b for a, b in zip(known[0], lists, strict=True)):
        remembered: list[Tenure] = known[1]
        return remembered
    timeless = True
    shown: dict[tuple[str, str, str, str, str, str], list[int]] = {}
    pods: dict[str, PodRecord] = {}
    for grants, taken in runs:
        for grant in grants:
            alone = grant.pod_uid or len(directory.by_name.get((grant.namespace, grant.pod_name), [])) < 2
            timeless = timeless and bool(alone)
            for first_us, last_us in ((taken[0], taken[-1]),) if alone else zip(taken, taken, strict=True):
                pod = _pod_of(grant, first_us, directory)
                if pod is not None:
                    pods[pod.uid] = pod
                uid = pod.uid if pod else grant.pod_uid
                key = (grant.gpu_uuid, grant.slot, grant.namespace, grant.pod_name, grant.container_name, uid)
                span = shown.setdefault(key, [first_us, last_us])
                span[0], span[1] = min(span[0], first_us), max(span[1], last_us)
    found: list[Tenure] = []
    for (gpu, slot, namespace, name, container, uid), (first_us, last_us) in shown.items():
        pod = pods.get(uid)
        holder = directory.holder_of_grant(pod, namespace, name, container)
        lives = _lives(pod, container) if pod else []
        timeless = timeless and bool(lives)
        found += [Tenure(gpu, slot, holder, a, b) for a, b in lives or [(first_us, last_us)] if b > a]
    made = _exclusive(found)
    if timeless:
        directory.tenures_of = (lists, made)
    return made


def grant_runs(snapshots: Iterable[Snapshot]) -> list[tuple[list[Grant], list[int]]]:
    """Distinct lists of grants with the times at which each was seen; a list shared by snapshots is looked at once."""
    runs: dict[int, tuple[list[Grant], list[int]]] = {}
    for snapshot in snapshots:
        if snapshot.grants_status == "ok":
            runs.setdefault(id(snapshot.grants), (snapshot.grants, []))[1].append(snapshot.taken_us)
    for _, taken in runs.values():
        taken.sort()
    return list(runs.values())


def _pod_of(grant: Grant, taken_us: int, directory: Directory) -> PodRecord | None:
    if grant.pod_uid:
        return directory.by_uid.get(grant.pod_uid)
    return directory.pod_as_of(grant.namespace, grant.pod_name, taken_us)


def _lives(pod: PodRecord, container_name: str) -> list[tuple[int, int]]:
    last = FOREVER_US if pod.deleted_us is None else pod.deleted_us
    for container in pod.containers:
        if container.name == container_name:
            ends = [last if run.finished_us is None else run.finished_us for run in container.runs]
            return [(run.started_us, end) for run, end in zip(container.runs, ends, strict=True)]
    return []


def _exclusive(found: list[Tenure]) -> list[Tenure]:
    by_slot: dict[tuple[str, str], list[Tenure]] = {}
    for tenure in found:
        by_slot.setdefault((tenure.gpu_uuid, tenure.slot), []).append(tenure)
    kept: list[Tenure] = []
    for line in by_slot.values():
        line.sort(key=lambda t: (t.start_us, t.holder.id))
        for tenure, following in zip(line, [*line[1:], None], strict=True):
            end_us = tenure.end_us if following is None else min(tenure.end_us, following.start_us)
            if end_us > tenure.start_us:
                kept.append(Tenure(tenure.gpu_uuid, tenure.slot, tenure.holder, tenure.start_us, end_us))
    return kept


def segments(held: list[Tenure], slots: int, start_us: int, end_us: int) -> list[Segment]:
    """The window [start, end) of one device cut where its grants change; covers the window without gap or overlap."""
    edges = {start_us, end_us}
    for tenure in held:
        edges.update(t for t in (tenure.start_us, tenure.end_us) if start_us < t < end_us)
    ordered = sorted(edges)
    out: list[Segment] = []
    for a, b in pairwise(ordered):
        by_id: dict[str, tuple[Holder, int]] = {}
        for tenure in held:
            if tenure.start_us <= a and b <= tenure.end_us:
                by_id[tenure.holder.id] = (tenure.holder, by_id.get(tenure.holder.id, (tenure.holder, 0))[1] + 1)
        out.append(Segment(a, b, tuple(by_id[i] for i in sorted(by_id)), slots))
    return out
