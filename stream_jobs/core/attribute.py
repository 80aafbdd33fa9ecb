"""From the columns of closed windows to the measures of every holder.

Laws: charged adds up to the lifetime and charged but unobserved to the observed time, to the microsecond; nobody has
a share without evidence; a null is not a zero (tests/property/test_meter.py against the row-by-row oracle).
"""

from dataclasses import dataclass

import numpy as np

from schemas.ids import UNALLOCATED, UNATTRIBUTED, UNOBSERVED
from schemas.samples import RING_OVERFLOW
from schemas.units import NVML_NOT_FOUND, NVML_SUCCESS

from .batch import Batch
from .divide import Ints, cumulative_by, cut, cut_amount, expand, sum_by, unique_rows
from .estimate import IDLE_ROW, UNATTRIBUTED_ROW, Shares, sampling_variance, shares
from .pieces import Pieces, pieces


@dataclass(slots=True)
class Measures:
    """Integer measures per holder number (`used_us` .. `memory_known`) and per GPU number (`*_observed_us`)."""

    used_us: Ints
    variance_us2: Ints
    resident_us: Ints
    idle_us: Ints
    hot_idle_us: Ints
    memory_byte_ms: Ints
    memory_partial: Ints
    energy_mj: Ints
    observed_us: Ints
    memory_observed_us: Ints
    energy_observed_us: Ints
    doubled: frozenset[int]
    over_reported: frozenset[int]


_PER_HOLDER = (
    "used_us", "variance_us2", "resident_us", "idle_us", "hot_idle_us", "memory_byte_ms", "memory_partial", "energy_mj",
)  # fmt: skip
_PER_GPU = ("observed_us", "memory_observed_us", "energy_observed_us")


@dataclass(slots=True)
class _Parts:
    """Rows of every observed piece: how long, whose, and how much energy."""

    piece: Ints
    holder: Ints
    us: Ints
    energy_mj: Ints
    variance_us2: Ints
    idle: Ints


def measure(batch: Batch) -> Measures:
    """All measures of a batch."""
    device = batch.device
    window_start = np.array([g.window.start_us for g in batch.gpus], np.int64)[batch.gpu]
    window_end = np.array([g.window.end_us for g in batch.gpus], np.int64)[batch.gpu]
    start, end = device["span_start_us"], device["span_end_us"]
    part = pieces(batch.gpu, start, end, batch.priority, window_start, window_end)
    answered = (device["processes_status"] == NVML_SUCCESS) | (device["processes_status"] == NVML_NOT_FOUND)
    trusted = answered & (device["samples_status"] == NVML_SUCCESS)
    count = np.where(trusted, device["sample_count"], 0)
    row = batch.process["device_row"]
    util = np.where(device["processes_status"][row] == NVML_SUCCESS, batch.process["sm_util_points"], -1)
    divided = shares(end - start, count, device["sample_sum_points"], row, util)
    out = _empty(batch, part, row, util)
    rows = _observed_parts(batch, part, divided, out)
    _add_used(out, rows)
    _add_energy_of_empty_spans(batch, window_start, window_end, out)
    resident = _add_residents(batch, part, out)
    _add_idle(batch, part, rows, resident, out)
    return out


def _empty(batch: Batch, part: Pieces, row: Ints, util: Ints) -> Measures:
    holders, gpus = len(batch.holders), len(batch.gpus)
    reported = sum_by(row, np.maximum(util, 0), batch.gpu.size)
    over = frozenset(int(g) for g in np.unique(batch.gpu[reported > 100]))
    per_holder = [np.zeros(holders, np.int64) for _ in _PER_HOLDER]
    per_gpu = [np.zeros(gpus, np.int64) for _ in _PER_GPU]
    return Measures(
        **dict(zip(_PER_HOLDER, per_holder, strict=True)),
        **dict(zip(_PER_GPU, per_gpu, strict=True)),
        doubled=part.doubled,
        over_reported=over,
    )


def _pseudo_numbers(batch: Batch, kind: str) -> Ints:
    return np.array([batch.holder_numbers[g, kind] for g in range(len(batch.gpus))], np.int64)


def _observed_parts(batch: Batch, part: Pieces, divided: Shares, out: Measures) -> _Parts:
    """Cuts every observed reading into its pieces; counts what is observed and hands lost energy to unobserved."""
    device, reading = batch.device, part.reading
    rows_of = sum_by(divided.reading, np.ones(divided.reading.size, np.int64), batch.gpu.size)
    first = np.cumsum(rows_of) - rows_of
    at, piece = expand(first[reading], rows_of[reading])
    start, length = device["span_start_us"][reading], (device["span_end_us"] - device["span_start_us"])[reading]
    x0, x1 = part.start_us - start, part.end_us - start
    upper = cut(divided.cumulative_us[at], length[piece], x0[piece], x1[piece])
    lower = cut(divided.cumulative_us[at] - divided.us[at], length[piece], x0[piece], x1[piece])
    size = x1 - x0
    known = (device["energy_status"] == NVML_SUCCESS)[reading]
    whole = (device["flags"] & RING_OVERFLOW == 0)[reading]
    joule = np.where(
        known, cut_amount((device["energy_end_mj"] - device["energy_start_mj"])[reading], length, x0, x1), 0
    )
    observed = rows_of[reading] > 0
    gpu = batch.gpu[reading]
    out.observed_us += sum_by(gpu, np.where(observed, size, 0), len(batch.gpus))
    out.energy_observed_us += sum_by(gpu, np.where(observed & known & whole, size, 0), len(batch.gpus))
    lost = joule * ~(observed & whole)
    out.energy_mj += sum_by(_pseudo_numbers(batch, UNOBSERVED)[gpu], lost, len(batch.holders))
    joule = joule - lost
    energy = joule[piece] * upper // size[piece] - joule[piece] * lower // size[piece]
    source = divided.source[at]
    unattributed = _pseudo_numbers(batch, UNATTRIBUTED)[gpu[piece]]
    process = np.where(source >= 0, source, 0)
    mine = batch.process_holder[process] if batch.process_holder.size else unattributed
    holder = np.where(source >= 0, mine, unattributed)
    full = sampling_variance(divided.us[at], length[piece], device["sample_count"][reading][piece])
    variance = np.where(source >= 0, full * (size / length)[piece], 0).astype(np.int64)
    idle = source == IDLE_ROW
    holder = np.where(source == UNATTRIBUTED_ROW, unattributed, holder)
    return _Parts(piece, holder, upper - lower, energy, variance, idle)


def _add_used(out: Measures, rows: _Parts) -> None:
    busy, size = ~rows.idle, out.used_us.size
    out.used_us += sum_by(rows.holder[busy], rows.us[busy], size)
    out.variance_us2 += sum_by(rows.holder[busy], rows.variance_us2[busy], size)
    out.energy_mj += sum_by(rows.holder[busy], rows.energy_mj[busy], size)


def _add_energy_of_empty_spans(batch: Batch, window_start: Ints, window_end: Ints, out: Measures) -> None:
    """Energy read without any time to divide it by is unobserved, in the window of the reading."""
    device = batch.device
    known = (device["energy_status"] == NVML_SUCCESS) & (device["span_end_us"] == device["span_start_us"])
    mine = known & (device["read_us"] >= window_start) & (device["read_us"] < window_end)
    energy = np.where(mine, device["energy_end_mj"] - device["energy_start_mj"], 0)
    out.energy_mj += sum_by(_pseudo_numbers(batch, UNOBSERVED)[batch.gpu], energy, len(batch.holders))


def _add_residents(batch: Batch, part: Pieces, out: Measures) -> Ints:
    """Adds resident time and memory; returns the sorted keys (piece x holders + holder) of who was resident when."""
    reading, holders = part.reading, len(batch.holders)
    listed = (batch.device["lists_status"] == NVML_SUCCESS)[reading]
    size = part.end_us - part.start_us
    out.memory_observed_us += sum_by(batch.gpu[reading], np.where(listed, size, 0), len(batch.gpus))
    row = batch.process["device_row"]
    rows_of = sum_by(row, np.ones(row.size, np.int64), batch.gpu.size)
    first = np.cumsum(rows_of) - rows_of
    at, piece = expand(first[reading], np.where(listed, rows_of[reading], 0))
    at, piece = at[(batch.process["lists"][at] > 0)], piece[(batch.process["lists"][at] > 0)]
    holder, memory = batch.process_holder[at], batch.process["memory_used_bytes"][at]
    start = batch.device["span_start_us"][reading]
    time_ms = (part.end_us - start) // 1000 - (part.start_us - start) // 1000
    out.memory_byte_ms += sum_by(holder, np.where(memory >= 0, memory, 0) * time_ms[piece], holders)
    out.memory_partial += sum_by(holder, (memory < 0).astype(np.int64), holders)
    distinct, _ = unique_rows(piece, holder)
    out.resident_us += sum_by(holder[distinct], size[piece[distinct]], holders)
    return np.sort(piece[distinct] * holders + holder[distinct])


def _add_idle(batch: Batch, part: Pieces, rows: _Parts, resident: Ints, out: Measures) -> None:
    """Divides idle time and energy of each piece over its grants: held / max(1, all held), rest unallocated."""
    idle = rows.idle & (rows.us > 0)
    piece, idle_us, idle_mj = rows.piece[idle], rows.us[idle], rows.energy_mj[idle]
    gpu = batch.gpu[part.reading][piece]
    seg_gpu, seg_start, seg_end, seg_slots, held_first, held_count, held_holder, held_slots = _segment_columns(batch)
    x0, x1 = part.start_us[piece], part.end_us[piece]
    # Times within the GPU's window, one behind the other: with times since 1970 the 5,000th GPU would overflow 64 bits.
    origin = np.array([g.window.start_us for g in batch.gpus], np.int64)
    stride = max((g.window.end_us - g.window.start_us for g in batch.gpus), default=0) + 1
    edges, base = seg_gpu * stride + seg_start - origin[seg_gpu], gpu * stride - origin[gpu]
    first = np.searchsorted(edges, base + x0, side="right") - 1
    last = np.searchsorted(edges, base + x1, side="left")
    seg, sub = expand(first, last - first)
    a, b = np.maximum(x0[sub], seg_start[seg]), np.minimum(x1[sub], seg_end[seg])
    length = (x1 - x0)[sub]
    sub_us = cut_amount(idle_us[sub], length, a - x0[sub], b - x0[sub])
    sub_mj = cut_amount(idle_mj[sub], length, a - x0[sub], b - x0[sub])
    at, part_of = expand(held_first[seg], held_count[seg])
    upper = cumulative_by(part_of, held_slots[at])
    total = sum_by(part_of, held_slots[at], seg.size)
    unit = np.maximum(total, seg_slots[seg])
    shared_us, shared_mj = np.zeros(seg.size, np.int64), np.zeros(seg.size, np.int64)
    holder, lower = held_holder[at], upper - held_slots[at]
    us = sub_us[part_of] * upper // unit[part_of] - sub_us[part_of] * lower // unit[part_of]
    mj = sub_mj[part_of] * upper // unit[part_of] - sub_mj[part_of] * lower // unit[part_of]
    shared_us += sum_by(part_of, us, seg.size)
    shared_mj += sum_by(part_of, mj, seg.size)
    size = len(batch.holders)
    out.idle_us += sum_by(holder, us, size)
    out.energy_mj += sum_by(holder, mj, size)
    key = piece[sub][part_of] * size + holder
    spot = np.minimum(np.searchsorted(resident, key), max(resident.size - 1, 0))
    hot = resident[spot] == key if resident.size else np.zeros(key.size, bool)
    out.hot_idle_us += sum_by(holder[hot], us[hot], size)
    unallocated = _pseudo_numbers(batch, UNALLOCATED)[gpu[sub]]
    out.idle_us += sum_by(unallocated, sub_us - shared_us, size)
    out.energy_mj += sum_by(unallocated, sub_mj - shared_mj, size)


def _segment_columns(batch: Batch) -> tuple[Ints, ...]:
    rows: list[tuple[int, ...]] = []
    holders: list[int] = []
    slots: list[int] = []
    for number, gpu in enumerate(batch.gpus):
        for segment in gpu.segments:
            rows.append((number, segment.start_us, segment.end_us, segment.slots, len(holders), len(segment.held)))
            holders += [batch.holder_numbers[number, holder.id] for holder, _ in segment.held]
            slots += [count for _, count in segment.held]
    table = np.array(rows, np.int64).reshape(-1, 6)
    return (*table.T, np.array(holders, np.int64), np.array(slots, np.int64))
