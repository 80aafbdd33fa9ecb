"""Readings reduced to sums: per GPU, message and window what its processes used, drew and held, without knowing whose.

Of the device readings themselves only what the close divides is kept: each piece's idle time and energy. Laws: the
same as the oracle's, row by row (tests/property/test_meter.py); sums do not depend on how readings were worked on
together (tests/property/test_reduce.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.samples import RING_OVERFLOW
from schemas.units import NVML_NOT_FOUND, NVML_NOT_SUPPORTED, NVML_SUCCESS

from .divide import Ints
from .shares import divide_columns
from .strips import MOST_PIECES, Columns, Strips, by_message, join, placed

_CELLS = 98_304
"""Cells of a matrix worked on at once: with eight bytes each some of them fit into a core's own cache."""

DEVICE_FIELDS = (
    "read_us", "span_start_us", "span_end_us", "sample_count", "sample_sum_points", "samples_status",
    "processes_status", "lists_status", "energy_start_mj", "energy_end_mj", "energy_status", "mapping_seq", "flags",
    "mig_mode",
)  # fmt: skip
PROCESS_FIELDS = ("device_row", "pid", "start_ticks", "sm_util_points", "memory_used_bytes", "lists")

_NEEDED = (
    "span_start_us", "span_end_us", "sample_count", "sample_sum_points", "samples_status", "processes_status",
    "lists_status", "energy_start_mj", "energy_end_mj", "energy_status", "mapping_seq", "flags", "mig_mode",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rows:
    """Readings of many messages as columns; `message` and `gpu` number each reading, process rows lie in order.

    `first` and `count` say where a reading's process rows lie, sorted by (pid, start) within it.
    """

    message: Ints
    gpu: Ints
    device: Columns
    process: Columns
    first: Ints
    count: Ints


def make_rows(message: Ints, gpu: Ints, device: Columns, process: Columns) -> Rows:
    """Rows with process rows in order; `device_row` of `process` counts through all readings."""
    row, pid, start = process["device_row"], process["pid"], process["start_ticks"]
    if not _rises(row, pid, start):
        order = np.lexsort((start, pid, row))
        process = {name: column[order] for name, column in process.items()}
    count = np.bincount(row, minlength=message.size).astype(np.int64)
    return Rows(message, gpu, device, process, np.cumsum(count) - count, count)


def _rises(row: Ints, pid: Ints, start: Ints) -> bool:
    """Whether rows are sorted by (row, pid, start)."""
    if bool((row[1:] < row[:-1]).any()):
        return False
    inside = row[1:] == row[:-1]
    if not bool((inside & (pid[1:] <= pid[:-1])).any()):
        return True
    same = inside & (pid[1:] == pid[:-1])
    return not bool((inside & (pid[1:] < pid[:-1])).any() or (same & (start[1:] < start[:-1])).any())


def reduce_pieces(rows: Rows, reading: Ints, start_us: Ints, end_us: Ints, window_us: Ints) -> Strips:
    """Strips of pieces [start, end) of readings, each in the window that starts at `window_us`.

    Pieces come sorted by (message, gpu); those of one GPU do not overlap.
    """
    width = _widths(rows.count[reading])
    found: list[Strips] = []
    for k in np.unique(width).tolist():
        mine = np.flatnonzero(width == k)
        step = max(64, _CELLS // (k + 2))
        for at in range(0, mine.size, step):
            cols = mine[at : at + step]
            found.append(_strips(rows, k, reading[cols], start_us[cols], end_us[cols], window_us[cols]))
    return by_message(join(found)) if len(found) > 1 else join(found)


def _widths(count: Ints) -> Ints:
    """Rows that a reading is worked on with: its own number, or where there are many such, the next of a few."""
    kinds = np.unique(count)
    if kinds.size <= 4:
        return count
    steps = [0, 1, 2, 3, 4, 6, 8]
    while steps[-1] < kinds[-1]:
        steps += [steps[-2] * 2, steps[-1] * 2]
    table = np.array(steps, np.int64)
    width: Ints = table[np.searchsorted(table, count)]
    return width


def _strips(rows: Rows, k: int, reading: Ints, start_us: Ints, end_us: Ints, window_us: Ints) -> Strips:
    """Strips of pieces whose readings have at most `k` process rows; columns of matrices are pieces."""
    device = {name: rows.device[name][reading] for name in _NEEDED}
    count = rows.count[reading]
    index = rows.first[reading] + np.arange(k)[:, None]
    padded = count < k
    hole = (np.arange(k)[:, None] >= count) if padded.any() else None
    if hole is not None:
        index = np.where(hole, 0, index)
    process = {name: rows.process[name].take(index) for name in PROCESS_FIELDS[1:]}
    if hole is not None:
        process["sm_util_points"] = np.where(hole, -1, process["sm_util_points"])
        process["lists"] = np.where(hole, 0, process["lists"])
        process["pid"] = np.where(hole, -1, process["pid"])
        process["start_ticks"] = np.where(hole, -1, process["start_ticks"])
    message, gpu = rows.message[reading], rows.gpu[reading]
    key = (message, gpu, window_us, device["mapping_seq"], count)
    new = _begins(key, process["pid"], process["start_ticks"])
    first = np.flatnonzero(new)
    pieces = np.diff(np.append(first, reading.size))
    position = np.arange(reading.size) - np.repeat(first, pieces)
    part, columns = _measured(device, process, start_us, end_us, position, first)
    strip = {"message": message[first], "gpu": gpu[first], "window_start_us": window_us[first]}
    strip |= {"mapping_seq": device["mapping_seq"][first].astype(np.int64), "rows": count[first], "pieces": pieces}
    strip |= {"start_us": start_us[first], "end_us": np.maximum.reduceat(end_us, first), **columns}
    row = {"pid": process["pid"][:, first], "start_ticks": process["start_ticks"][:, first]} | part.row
    keep = None if hole is None else ~hole[:, first].T.ravel()
    flat = {name: matrix.T.ravel() if keep is None else matrix.T.ravel()[keep] for name, matrix in row.items()}
    return Strips(placed(strip), flat, {"reading": reading, "start_us": start_us, "end_us": end_us} | part.piece)


def _begins(key: tuple[Ints, ...], pid: Ints, start_ticks: Ints) -> Any:
    """Where a strip begins: another key or list of processes than the piece before, or a strip that is full."""
    size = key[0].size
    new = np.ones(size, bool)
    new[1:] = np.logical_or.reduce([c[1:] != c[:-1] for c in key])
    new[1:] |= (pid[:, 1:] != pid[:, :-1]).any(axis=0) | (start_ticks[:, 1:] != start_ticks[:, :-1]).any(axis=0)
    first = np.flatnonzero(new)
    within = np.arange(size) - np.repeat(first, np.diff(np.append(first, size)))
    new |= within % MOST_PIECES == 0
    return new


@dataclass(frozen=True, slots=True)
class _Part:
    row: Columns
    piece: Columns


def _measured(
    device: Columns, process: Columns, start_us: Ints, end_us: Ints, position: Ints, first: Ints
) -> tuple[_Part, Columns]:
    """Sums of the strips that begin at `first`, of their rows, and the idle part of each piece."""
    span_start, size = device["span_start_us"], end_us - start_us
    answered = (device["processes_status"] == NVML_SUCCESS) | (device["processes_status"] == NVML_NOT_FOUND)
    sampled = answered & (device["samples_status"] == NVML_SUCCESS) & (device["sample_count"] > 0)
    # Of a MIG instance the driver tells no use (nvml.h): all of its time is charged like idle time, by what is held.
    allocated = (device["mig_mode"] == 1) & (device["samples_status"] == NVML_NOT_SUPPORTED)
    observed = sampled | allocated
    known = device["energy_status"] == NVML_SUCCESS
    whole = device["flags"] & RING_OVERFLOW == 0
    util = process["sm_util_points"]
    named = device["processes_status"] == NVML_SUCCESS
    if not named.all():
        util = np.where(named, util, -1)
    energy = np.where(known, device["energy_end_mj"] - device["energy_start_mj"], 0)
    length = device["span_end_us"] - span_start
    x0, x1 = start_us - span_start, end_us - span_start
    joule = energy * x1 // length - energy * x0 // length
    lost = np.where(observed & whole, 0, joule)
    count = np.where(allocated, 1, np.where(sampled, device["sample_count"], 0))
    points = np.where(allocated, 0, device["sample_sum_points"])
    divided = divide_columns(length, count, points, np.where(allocated, -1, util), x0, x1, joule - lost)
    listed = device["lists_status"] == NVML_SUCCESS
    bits = np.bitwise_or.reduceat(np.where(listed, np.int64(1) << position, 0), first)
    k = util.shape[0]
    row = {
        "used_us": np.add.reduceat(divided.us[:k], first, axis=1),
        "variance_us2": np.add.reduceat(divided.variance_us2, first, axis=1),
        "energy_mj": np.add.reduceat(divided.energy_mj[:k], first, axis=1),
        **_presence(process, listed, x0, x1, position, first, bits),
    }
    strip = {
        "observed_us": np.where(observed, size, 0),
        "allocated_us": np.where(allocated, size, 0),
        "energy_observed_us": np.where(observed & known & whole, size, 0),
        "memory_observed_us": np.where(listed, size, 0),
        "lost_mj": lost,
        "unattributed_us": divided.us[k],
        "unattributed_mj": divided.energy_mj[k],
    }
    columns = {name: np.add.reduceat(values, first) for name, values in strip.items()}
    columns["listed"] = bits
    return _Part(row, {"idle_us": divided.us[k + 1], "idle_mj": divided.energy_mj[k + 1]}), columns


def _presence(process: Columns, listed: Any, x0: Ints, x1: Ints, position: Ints, first: Ints, bits: Ints) -> Columns:
    """Bytes times milliseconds of each row in each strip, in how many pieces unknown, and the pieces that list it."""
    time_ms, memory = x1 // 1000 - x0 // 1000, process["memory_used_bytes"]
    if memory.size and process["lists"].min() > 0 and memory.min() >= 0:
        # As it mostly is: all processes were in a list wherever there was one.
        sums = np.add.reduceat(memory * np.where(listed, time_ms, 0), first, axis=1)
        return {
            "memory_byte_ms": sums,
            "memory_partial": np.zeros_like(sums),
            "present": np.broadcast_to(bits, sums.shape),
        }
    present = (process["lists"] > 0) & listed
    return {
        "memory_byte_ms": np.add.reduceat(np.where(present, np.maximum(memory, 0), 0) * time_ms, first, axis=1),
        "memory_partial": np.add.reduceat((present & (memory < 0)).astype(np.int64), first, axis=1),
        "present": np.bitwise_or.reduceat(np.where(present, np.int64(1) << position, 0), first, axis=1),
    }
