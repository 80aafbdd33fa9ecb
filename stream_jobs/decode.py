"""Decodes gpu-samples payloads into columns and refuses what cannot be true.

Knows Arrow and the record's schema; nothing of windows or holders. A payload that fails here can never succeed, so
the caller sends it to dead letters with the error's text (tests/unit/stream_jobs/test_decode.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import Column
from schemas.limits import MAX_NUMBER, MAX_TEXT
from schemas.samples import DEVICE_COLUMNS, ENERGY_RESET, LONGEST_SPAN_US, PROCESS_COLUMNS
from schemas.units import STATUS_NOT_ASKED

MAX_SAMPLES = 1_000
MAX_NAMED = 1_000
MAX_ENERGY_MJ = 1_000_000_000
MAX_MEMORY_BYTES = 1 << 46
"""Of all processes of a GPU together: 64 TiB, so that bytes times the milliseconds of a window fit into 64 bits."""
"""1 MJ: a GPU of 1 kW over 16 minutes."""

Columns = dict[str, Any]
"""Column name to numpy array; text columns are object arrays."""

_ARROW_TYPES: dict[str, pa.DataType] = {
    "utf8": pa.string(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "list<utf8>": pa.list_(pa.string()),
}


class DecodeError(ValueError):
    """A payload that is not what its headers say; names the column, the row and the value."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One gpu-samples message: its sender's identity, place in the log, device rows and process rows."""

    boot_id: str
    epoch_us: int
    seq: int
    offset: int
    device: Columns
    process: Columns


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Arrow schema of a list of columns."""
    return pa.schema([pa.field(c.name, _ARROW_TYPES[c.type], nullable=c.nullable) for c in columns])


DEVICE_SCHEMA = arrow_schema(DEVICE_COLUMNS)
PROCESS_SCHEMA = arrow_schema(PROCESS_COLUMNS)


def decode_reading(payload: bytes) -> tuple[Columns, Columns]:
    """Device and process columns of a payload; DecodeError names what is wrong with it."""
    source = pa.BufferReader(payload)
    device = _columns(source, "device", DEVICE_SCHEMA)
    process = _columns(source, "process", PROCESS_SCHEMA)
    _forget_reset_energy(device)
    _check_device(device)
    _check_process(process, len(device["read_us"]))
    return _without_mig_parents(device, process)


def encode_reading(device: Columns, process: Columns) -> bytes:
    """The payload that `decode_reading` reads: two Arrow IPC streams back to back."""
    sink = pa.BufferOutputStream()
    for columns, schema in ((device, DEVICE_SCHEMA), (process, PROCESS_SCHEMA)):
        batch = pa.record_batch([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _columns(source: pa.BufferReader, part: str, schema: pa.Schema) -> Columns:
    try:
        table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise DecodeError(f"{part} rows: not an Arrow IPC stream: {error}") from error
    if table.schema.names != schema.names or table.schema.types != schema.types:
        raise DecodeError(f"{part} rows: columns {table.schema.names} of {table.schema.types}, expected {schema.names}")
    columns: Columns = {}
    for field in schema:
        column = table.column(field.name)
        if column.null_count:
            raise DecodeError(f"{part} rows: column {field.name} holds {column.null_count} nulls, it may hold none")
        if pa.types.is_string(field.type) and (pc.max(pc.utf8_length(column)).as_py() or 0) > MAX_TEXT:
            raise DecodeError(f"{part} rows: column {field.name} holds a text of more than {MAX_TEXT} characters")
        columns[field.name] = column.to_numpy()
    return columns


def _refuse(part: str, columns: Columns, name: str, bad: Any, why: str) -> None:
    rows = np.flatnonzero(bad)
    if rows.size:
        row = int(rows[0])
        raise DecodeError(f"{part} row {row}: {name} = {columns[name][row]}: {why}")


def _forget_reset_energy(device: Columns) -> None:
    """Energy over a counter's reset is not known; the rest of such a row, and its message, is as good as any."""
    reset = device["flags"] & ENERGY_RESET != 0
    device["energy_status"] = np.where(reset, STATUS_NOT_ASKED, device["energy_status"]).astype(np.int16)


def _check_device(device: Columns) -> None:
    span = device["span_end_us"] - device["span_start_us"]
    count, total = device["sample_count"].astype(np.int64), device["sample_sum_points"]
    for name in ("read_us", "span_start_us", "span_end_us"):
        bad = (device[name] < 0) | (device[name] > MAX_NUMBER)
        _refuse("device", device, name, bad, "not a time from 1970 to 2255")
    _refuse("device", device, "span_end_us", span < 0, "before span_start_us")
    _refuse("device", device, "span_end_us", span > LONGEST_SPAN_US, f"a span above {LONGEST_SPAN_US} us")
    _refuse("device", device, "sample_count", (count < 0) | (count > MAX_SAMPLES), f"outside 0..{MAX_SAMPLES}")
    _refuse("device", device, "sample_sum_points", (total < 0) | (total > 100 * count), "outside 0..100 x sample_count")
    known = device["energy_status"] == 0
    energy = np.where(known, device["energy_end_mj"] - device["energy_start_mj"], 0)
    bad_energy = (energy < 0) | (energy > MAX_ENERGY_MJ)
    _refuse("device", device, "energy_end_mj", bad_energy, "not 0..1 MJ above energy_start_mj")
    uuids = device["gpu_uuid"]
    pairs = list(zip(uuids, device["read_us"], strict=True))
    if len(set(pairs)) != len(pairs):
        raise DecodeError("device rows: a GPU has two rows with one read_us")


def _check_process(process: Columns, devices: int) -> None:
    row = process["device_row"]
    _refuse("process", process, "device_row", (row < 0) | (row >= devices), f"outside the {devices} device rows")
    util = process["sm_util_points"]
    _refuse("process", process, "sm_util_points", (util < -1) | (util > 100), "outside 0..100 and not -1")
    memory = process["memory_used_bytes"]
    _refuse("process", process, "memory_used_bytes", memory < -1, "negative")
    total = np.zeros(devices)
    np.add.at(total, row, np.maximum(memory, 0))
    _refuse("process", process, "memory_used_bytes", total[row] > MAX_MEMORY_BYTES, "above 64 TiB with others")
    _refuse("process", process, "pid", process["pid"] <= 0, "not a process id")
    if row.size and int(np.bincount(row).max()) > MAX_NAMED:
        raise DecodeError(f"process rows: more than {MAX_NAMED} processes on one GPU")
    keys = list(zip(row.tolist(), process["pid"].tolist(), process["start_ticks"].tolist(), strict=True))
    if len(set(keys)) != len(keys):
        raise DecodeError("process rows: a process (pid, start_ticks) has two rows of one device row")


def _without_mig_parents(device: Columns, process: Columns) -> tuple[Columns, Columns]:
    """A GPU in MIG mode is metered by its instances; its own row beside theirs would count the hardware twice."""
    names = device["gpu_uuid"].astype(str)
    instance = np.char.startswith(names, "MIG-") if names.size else np.zeros(0, bool)
    if not instance.any():
        return device, process
    keep = instance | (device["mig_mode"] != 1)
    number = np.cumsum(keep) - 1
    mine = keep[process["device_row"]]
    kept = {name: column[mine] for name, column in process.items()}
    kept["device_row"] = number[kept["device_row"]].astype(np.int32)
    return {name: column[keep] for name, column in device.items()}, kept
