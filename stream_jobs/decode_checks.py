"""What cannot be true of decoded readings: rules as masks over rows, for one message and for many at once.

Every rule stands once: `faulty_messages` tells which messages of a batch break one, `first_fault` says which rule a
message breaks, with column, row and value (tests/unit/stream_jobs/test_decode.py).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from schemas.limits import MAX_NUMBER
from schemas.samples import LONGEST_SPAN_US

Columns = dict[str, Any]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

MAX_SAMPLES = 1_000
MAX_NAMED = 1_000
MAX_ENERGY_MJ = 1_000_000_000
"""1 MJ: a GPU of 1 kW over 16 minutes."""
MAX_SLICES = 64
MAX_MEMORY_BYTES = 1 << 46
"""Of all processes of a GPU together: 64 TiB, so that bytes times the milliseconds of a window fit into 64 bits."""


class Rule(NamedTuple):
    """A column, the rows in which it breaks the rule, and the rule in words."""

    column: str
    bad: Mask
    why: str


def faulty_messages(device: Columns, device_rows: Any, process: Columns, process_rows: Any) -> frozenset[int]:
    """Numbers of the messages in a batch that break a rule; `*_rows` are the rows of each message."""
    if _surely_true(device, device_rows, process, process_rows):
        return frozenset()
    first = np.cumsum(device_rows) - device_rows
    of_device = np.repeat(np.arange(len(device_rows)), device_rows)
    of_process = np.repeat(np.arange(len(process_rows)), process_rows)
    counts = device_rows[of_process]
    faulty: set[int] = set()
    for rule in device_rules(device, of_device):
        faulty.update(of_device[rule.bad].tolist())
    for rule in process_rules(process, counts, first[of_process], len(of_device)):
        faulty.update(of_process[rule.bad].tolist())
    return frozenset(faulty)


def _surely_true(device: Columns, device_rows: Any, process: Columns, process_rows: Any) -> bool:
    """Whether no message can break a rule, by bounds of whole columns; False where that does not settle it."""
    of_device = np.repeat(np.arange(len(device_rows)), device_rows)
    if any(rule.bad.any() for rule in device_rules(device, of_device)):
        return False
    row, pid = process["device_row"], process["pid"]
    if not row.size:
        return True
    util, memory = process["sm_util_points"], process["memory_used_bytes"]
    if row.min() < 0 or util.min() < -1 or util.max() > 100 or memory.min() < -1 or pid.min() <= 0:
        return False
    some = np.flatnonzero(process_rows)
    first = (np.cumsum(process_rows) - process_rows)[some]
    if (np.maximum.reduceat(row, first) >= device_rows[some]).any():
        return False
    # Sorted by reading and pid within each message, no process can have two rows.
    new_message = np.zeros(row.size, bool)
    new_message[first] = True
    rises = (row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (pid[1:] > pid[:-1])) | new_message[1:]
    if not rises.all():
        return False
    ends = np.flatnonzero(np.append((row[1:] != row[:-1]) | new_message[1:], True))
    longest = int(np.diff(ends, prepend=-1).max())
    return longest <= MAX_NAMED and longest * int(memory.max()) <= MAX_MEMORY_BYTES


def first_fault(device: Columns, process: Columns) -> str:
    """The first rule that one message breaks, with part, row, column and value."""
    devices, processes = len(device["read_us"]), len(process["pid"])
    zero = np.zeros(processes, np.int64)
    parts = (
        ("device", device, device_rules(device, np.zeros(devices, np.int64))),
        ("process", process, process_rules(process, zero + devices, zero, devices)),
    )
    for part, columns, rules in parts:
        for rule in rules:
            rows = np.flatnonzero(rule.bad)
            if rows.size:
                row = int(rows[0])
                return f"{part} row {row}: {rule.column} = {columns[rule.column][row]}: {rule.why}"
    return "a rule is broken beside other messages and not alone: a defect of this reader"


def device_rules(device: Columns, message: Any) -> Iterator[Rule]:
    """Rules of device rows; `message` numbers the message of each row."""
    span = device["span_end_us"] - device["span_start_us"]
    count, total = device["sample_count"].astype(np.int64), device["sample_sum_points"]
    for name in ("read_us", "span_start_us", "span_end_us"):
        yield Rule(name, (device[name] < 0) | (device[name] > MAX_NUMBER), "not a time from 1970 to 2255")
    yield Rule("span_end_us", span < 0, "before span_start_us")
    yield Rule("span_end_us", span > LONGEST_SPAN_US, f"a span above {LONGEST_SPAN_US} us")
    yield Rule("sample_count", (count < 0) | (count > MAX_SAMPLES), f"outside 0..{MAX_SAMPLES}")
    yield Rule("sample_sum_points", (total < 0) | (total > 100 * count), "outside 0..100 x sample_count")
    energy = np.where(device["energy_status"] == 0, device["energy_end_mj"] - device["energy_start_mj"], 0)
    yield Rule("energy_end_mj", (energy < 0) | (energy > MAX_ENERGY_MJ), "not 0..1 MJ above energy_start_mj")
    slices, of = device["slices"], device["slices_total"]
    yield Rule("slices_total", (of < 1) | (of > MAX_SLICES), f"outside 1..{MAX_SLICES}")
    yield Rule("slices", (slices < 1) | (slices > of), "outside 1..slices_total")
    yield Rule("slices_total", (of > 1) & (device["mig_mode"] != 1), "slices outside MIG mode")
    code = device["gpu_uuid"]
    if code.dtype == object:
        code = np.unique(code.astype(str), return_inverse=True)[1]
    yield Rule("gpu_uuid", _repeated(message, device["read_us"], code), "has two rows with one read_us")


def process_rules(process: Columns, devices: Any, first_device: Any, all_devices: int) -> Iterator[Rule]:
    """Rules of process rows; `devices` are the device rows of each row's message, `first_device` the first of them."""
    row = process["device_row"].astype(np.int64)
    astray = (row < 0) | (row >= devices)
    yield Rule("device_row", astray, "outside the message's device rows")
    row = np.where(astray, 0, row) + first_device
    util, memory = process["sm_util_points"], process["memory_used_bytes"]
    yield Rule("sm_util_points", (util < -1) | (util > 100), "outside 0..100 and not -1")
    yield Rule("memory_used_bytes", memory < -1, "negative")
    if all_devices:
        total = np.bincount(row, np.maximum(memory, 0), all_devices)
        yield Rule("memory_used_bytes", total[row] > MAX_MEMORY_BYTES, "above 64 TiB with others")
        named = np.bincount(row, minlength=all_devices)
        yield Rule("device_row", named[row] > MAX_NAMED, f"has more than {MAX_NAMED} processes")
    yield Rule("pid", process["pid"] <= 0, "not a process id")
    yield Rule("pid", _repeated(row, process["pid"], process["start_ticks"]), "has two rows with one start_ticks")


def _repeated(*columns: Any) -> Mask:
    """Rows that equal another in all columns; cheap where the rows are sorted already."""
    size = len(columns[0])
    if size < 2:
        return np.zeros(size, bool)
    order = None if _is_sorted(columns) else np.lexsort(columns[::-1])
    sorted_columns = columns if order is None else [column[order] for column in columns]
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in sorted_columns])
    bad = np.zeros(size, bool)
    bad[1:] = same
    if order is None:
        return bad
    unsorted = np.zeros(size, bool)
    unsorted[order] = bad
    return unsorted


def _is_sorted(columns: Any) -> bool:
    behind = np.zeros(len(columns[0]) - 1, bool)
    equal = np.ones(len(columns[0]) - 1, bool)
    for column in columns:
        behind |= equal & (column[1:] < column[:-1])
        equal &= column[1:] == column[:-1]
    return not behind.any()
