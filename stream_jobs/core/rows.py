"""Usage rows of closed windows: measures, flags and nulls of every holder, and a row for every broken law.

Null is "the basis cannot say" and never a zero. Conservation is checked here on every window (tests/property).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from schemas.ids import HOST, POD, UNALLOCATED, UNATTRIBUTED, UNOBSERVED, VIOLATION
from schemas.samples import MPS_LIST, READING_FLAGS
from schemas.usage import ALL_COLUMNS, METER_VERSION
from stream_jobs.decode import arrow_schema

from .attribute import Measures
from .batch import Batch, Gpu
from .divide import sum_by, unique_rows
from .identity import Holder

_EVIDENCE = ("charged_us", "held_us", "used_us", "resident_us", "memory_byte_ms", "energy_mj")
USAGE_SCHEMA = arrow_schema(ALL_COLUMNS)
_REASONS = {3: "not_supported", 4: "no_permission", 15: "device_lost", 16: "reset_required", 18: "driver_mismatch"}


class _Table:
    """Columns under construction."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Any]] = {c.name: [] for c in ALL_COLUMNS}

    def add(self, row: dict[str, Any]) -> None:
        for name, column in self.columns.items():
            column.append(row[name])

    def finish(self) -> pa.Table:
        return pa.table({f.name: pa.array(self.columns[f.name], f.type) for f in USAGE_SCHEMA}, schema=USAGE_SCHEMA)


def usage_table(batch: Batch, m: Measures, topic_id: str, partition: int) -> pa.Table:
    """The rows of a batch, by window, GPU and holder; a holder without any evidence in the window has no row."""
    table = _Table()
    gpu_of = np.array([g for g, _ in batch.holders], np.int64)
    charged = (m.used_us + m.idle_us).tolist()
    flags = _gpu_flags(batch, m)
    common = [_common(batch, m, g, flags[g], topic_id, partition) for g in range(len(batch.gpus))]
    held = [_held_by(gpu) for gpu in batch.gpus]
    for number in np.lexsort((np.array([h.id for _, h in batch.holders]), gpu_of)).tolist():
        g, holder = batch.holders[number]
        row = common[g] | _identity(holder) | {"charged_us": charged[number]}
        row |= (
            _pseudo_measures(batch, m, number)
            if holder.kind != POD
            else _pod_measures(batch, m, number, held[g], common[g]["flags"])
        )
        if not any(row[name] for name in _EVIDENCE):
            continue
        row["flags"] = sorted(set(row["flags"]) | holder.flags)
        table.add(row | _differences(row))
    for g, what, amount in violations(batch, m, gpu_of):
        row = (
            common[g]
            | _identity(Holder(f"violation:{what}", VIOLATION))
            | _nulls()
            | {"charged_us": amount, "flags": [what]}
        )
        table.add(row | _differences(row))
    return table.finish()


def violations(batch: Batch, m: Measures, gpu_of: Any) -> list[tuple[int, str, int]]:
    """Broken laws as (GPU number, law, by how many microseconds); empty unless there is a defect."""
    size = len(batch.gpus)
    spent = sum_by(gpu_of, m.used_us + m.idle_us, size)
    lifetime = np.array([g.window.end_us - g.window.start_us for g in batch.gpus], np.int64)
    found: list[tuple[int, str, int]] = []
    for name, amount in (
        ("charged_is_not_observed", spent - m.observed_us),
        ("observed_above_lifetime", m.observed_us - lifetime),
    ):
        broken = amount != 0 if name == "charged_is_not_observed" else amount > 0
        found += [(g, name, int(amount[g])) for g in np.flatnonzero(broken).tolist()]
    for name in ("used_us", "idle_us", "energy_mj", "resident_us", "hot_idle_us"):
        values = getattr(m, name)
        found += [(int(gpu_of[n]), f"negative_{name}", int(values[n])) for n in np.flatnonzero(values < 0).tolist()]
    return found


def _common(batch: Batch, m: Measures, g: int, flags: list[str], topic_id: str, partition: int) -> dict[str, Any]:
    gpu = batch.gpus[g]
    window = gpu.window
    return {
        "cluster": window.cluster,
        "node": window.node,
        "gpu_uuid": gpu.gpu_uuid,
        "gpu_model": gpu.gpu_model,
        "window_start_us": window.start_us,
        "window_end_us": window.end_us,
        "revision": window.revision,
        "observed_us": int(m.observed_us[g]),
        "memory_observed_us": int(m.memory_observed_us[g]),
        "energy_observed_us": int(m.energy_observed_us[g]),
        "lifetime_us": window.end_us - window.start_us,
        "weight_slices": 1,
        "weight_total": 1,
        "basis": "sampled" if m.observed_us[g] else "allocation",
        "flags": flags,
        "meter_version": METER_VERSION,
        "src_topic_id": topic_id,
        "src_partition": partition,
        "cut_samples_offset": window.cuts[0],
        "cut_mappings_offset": window.cuts[1],
        "cut_events_offset": window.cuts[2],
    }


def _gpu_flags(batch: Batch, m: Measures) -> list[list[str]]:
    """Sorted flags of every GPU: what its readings of the window say, and what its grants and times show."""
    flags: list[set[str]] = [set() for _ in batch.gpus]
    lost = [m.observed_us[g] < x.window.end_us - x.window.start_us for g, x in enumerate(batch.gpus)]
    start = np.array([g.window.start_us for g in batch.gpus], np.int64)[batch.gpu]
    end = np.array([g.window.end_us for g in batch.gpus], np.int64)[batch.gpu]
    mine = np.flatnonzero((batch.device["read_us"] >= start) & (batch.device["read_us"] < end))
    names = ("flags", "samples_status", "processes_status")
    columns = [batch.gpu[mine], *(batch.device[name][mine] for name in names)]
    first, _ = unique_rows(*columns)
    for g, bits, *statuses in zip(*(c[first].tolist() for c in columns), strict=True):
        flags[g] |= {name for bit, name in READING_FLAGS.items() if bits & bit}
        if lost[g]:
            flags[g] |= {_reason(status) for status in statuses if status not in (0, 6)}
    read = set(columns[0].tolist())
    for g in np.unique(batch.gpu[batch.device["mig_mode"] == 1]).tolist():
        flags[g].add("mig")
    for g in np.unique(batch.gpu[batch.process["device_row"][batch.process["lists"] & MPS_LIST > 0]]).tolist():
        flags[g].add("mps")
    for g, gpu in enumerate(batch.gpus):
        if lost[g] and g not in read:
            flags[g].add("silent")
        if g in m.doubled:
            flags[g].add("duplicate_collector")
        if g in m.over_reported:
            flags[g].add("over_report")
        if not gpu.grants_known:
            flags[g].add("grant_unknown")
        if any(sum(count for _, count in s.held) > s.slots for s in gpu.segments):
            flags[g].add("overcommitted")
    return [sorted(f) for f in flags]


def _reason(status: int) -> str:
    return _REASONS.get(status, f"nvml_{status}" if status >= 0 else "not_asked")


def _held_by(gpu: Gpu) -> dict[str, int]:
    """Held microseconds of every holder of a GPU: slots x time / slots of the device."""
    sums: dict[str, int] = {}
    for segment in gpu.segments:
        for holder, count in segment.held:
            sums[holder.id] = sums.get(holder.id, 0) + count * (segment.end_us - segment.start_us)
    return {holder: total // gpu.segments[0].slots for holder, total in sums.items()}


def _identity(holder: Holder) -> dict[str, Any]:
    return {
        "holder": holder.id,
        "holder_kind": holder.kind,
        "namespace": holder.namespace,
        "pod_name": holder.pod_name,
        "pod_uid": holder.pod_uid,
        "container_name": holder.container_name,
        "owner_kind": holder.owner_kind,
        "owner_name": holder.owner_name,
    }


def _nulls() -> dict[str, Any]:
    return {c.name: None for c in ALL_COLUMNS if c.nullable}


def _pseudo_measures(batch: Batch, m: Measures, number: int) -> dict[str, Any]:
    g, holder = batch.holders[number]
    row = _nulls()
    if m.energy_observed_us[g] or m.energy_mj[number]:
        row["energy_mj"] = int(m.energy_mj[number])
    if holder.kind == UNOBSERVED:
        window = batch.gpus[g].window
        return row | {"charged_us": window.end_us - window.start_us - int(m.observed_us[g])}
    if holder.kind in (HOST, UNATTRIBUTED, UNALLOCATED):
        row["used_us"] = int(m.used_us[number])
    if holder.kind in (HOST, UNATTRIBUTED):
        row["used_variance_us2"] = int(m.variance_us2[number])
        row |= _memory(m, number, g)
    return row


def _memory(m: Measures, number: int, g: int) -> dict[str, Any]:
    if not m.memory_observed_us[g]:
        return {}
    known = not m.memory_partial[number] or m.memory_byte_ms[number]
    return {
        "resident_us": int(m.resident_us[number]),
        "hot_idle_us": int(m.hot_idle_us[number]),
        "memory_byte_ms": int(m.memory_byte_ms[number]) if known else None,
    }


def _pod_measures(batch: Batch, m: Measures, number: int, held: dict[str, int], gpu_flags: list[str]) -> dict[str, Any]:
    g, holder = batch.holders[number]
    gpu = batch.gpus[g]
    row = _nulls() | _memory(m, number, g)
    if m.observed_us[g]:
        row["used_us"] = int(m.used_us[number])
        row["used_variance_us2"] = int(m.variance_us2[number])
    if m.energy_observed_us[g]:
        row["energy_mj"] = int(m.energy_mj[number])
    flags = set(gpu_flags) | set(_pod_flags(gpu, holder, row, held))
    if m.memory_partial[number]:
        flags.add("memory_partial")
    if gpu.grants_known:
        row["held_us"] = held.get(holder.id, 0)
        row["requested_us"] = _requested(holder, row["held_us"], gpu.granted_units.get(holder.id, 0))
    return row | {"flags": sorted(flags)}


def _requested(holder: Holder, held_us: int, granted: int) -> int | None:
    if holder.requested_units is None:
        return None
    return held_us * holder.requested_units // granted if granted and holder.requested_units else 0


def _pod_flags(gpu: Gpu, holder: Holder, row: dict[str, Any], held: dict[str, int]) -> list[str]:
    flags = []
    if holder.requested_units == 0 and (row["used_us"] or row["resident_us"]):
        flags.append("unrequested")
    if holder.requested_units and gpu.grants_known and holder.id not in held:
        flags.append("granted_elsewhere" if gpu.granted_units.get(holder.id) else "grant_missing")
    return flags


def _differences(row: dict[str, Any]) -> dict[str, int]:
    names = ("held_us", "used_us", "charged_us", "memory_byte_ms", "energy_mj")
    return {f"d_{name}": row[name] or 0 for name in names}
