"""Flags of usage rows: what a GPU's readings say, what its grants and times show, what a holder's evidence lacks."""

from typing import Any

import numpy as np

from schemas.samples import MPS_LIST, READING_FLAGS

from .attribute import Measures
from .batch import Batch
from .divide import unique_rows

_REASONS = {3: "not_supported", 4: "no_permission", 15: "device_lost", 16: "reset_required", 18: "driver_mismatch"}


def gpu_flags(batch: Batch, m: Measures) -> list[list[str]]:
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
        if gpu.window.spool_gap:
            flags[g].add("spool_gap")
        if not gpu.grants_known:
            flags[g].add("grant_unknown")
        if any(sum(count for _, count in s.held) > s.slots for s in gpu.segments):
            flags[g].add("overcommitted")
    return [sorted(f) for f in flags]


def _reason(status: int) -> str:
    return _REASONS.get(status, f"nvml_{status}" if status >= 0 else "not_asked")


def row_flags(batch: Batch, of_gpu: list[list[str]], marks: dict[str, Any], numbers: list[int]) -> list[list[str]]:
    """Flags of holders: their GPU's, their own, and the names of the `marks` (masks per holder) that are set."""
    names = sorted(marks)
    bits = np.zeros(len(batch.holders), np.int64)
    for bit, name in enumerate(names):
        bits |= marks[name].astype(np.int64) << bit
    known: dict[tuple[int, frozenset[str], int], list[str]] = {}
    out = []
    for number, set_bits in zip(numbers, bits[numbers].tolist(), strict=True):
        g, holder = batch.holders[number]
        key = (g, holder.flags, set_bits)
        flags = known.get(key)
        if flags is None:
            own = {name for bit, name in enumerate(names) if set_bits >> bit & 1}
            flags = known[key] = sorted({*of_gpu[g], *holder.flags, *own})
        out.append(flags)
    return out
