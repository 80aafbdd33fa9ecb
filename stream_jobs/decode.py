"""Decodes gpu-samples payloads into columns, many at once, and refuses what cannot be true.

Knows Arrow and the record's schema; nothing of windows or holders. A payload that fails here can never succeed, so
the caller sends it to dead letters with the error's text (tests/unit/stream_jobs/test_decode.py). Messages are put
together before their columns are looked at: the cost is per column of a batch, not per column of a message.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import Column
from schemas.limits import MAX_TEXT
from schemas.samples import DEVICE_COLUMNS, ENERGY_RESET, PROCESS_COLUMNS
from schemas.units import STATUS_NOT_ASKED

from .decode_checks import Columns, faulty_messages, first_fault

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
    (decoded,) = decode_readings([payload])
    if isinstance(decoded, DecodeError):
        raise decoded
    return decoded


def decode_readings(payloads: Sequence[bytes]) -> list[tuple[Columns, Columns] | DecodeError]:
    """Columns of each payload, or what is wrong with it; one bad payload costs the others nothing."""
    out: list[tuple[Columns, Columns] | DecodeError] = []
    tables: dict[int, tuple[pa.Table, pa.Table]] = {}
    for number, payload in enumerate(payloads):
        source = pa.BufferReader(payload)
        try:
            tables[number] = _table(source, "device", DEVICE_SCHEMA), _table(source, "process", PROCESS_SCHEMA)
            out.append(DecodeError("not read yet"))
        except DecodeError as error:
            out.append(error)
    for number, fault in _bad_cells(tables).items():
        out[number] = fault
        del tables[number]
    if tables:
        device_rows, process_rows = ([pair[i].num_rows for pair in tables.values()] for i in (0, 1))
        device, process = (_columns([pair[i] for pair in tables.values()]) for i in (0, 1))
        _forget_reset_energy(device)
        for number, decoded in zip(tables, _split(device, device_rows, process, process_rows), strict=True):
            out[number] = decoded
    return out


def _bad_cells(tables: dict[int, tuple[pa.Table, pa.Table]]) -> dict[int, DecodeError]:
    """Errors of the messages with nulls or texts too long; looked for one by one only if the whole has some."""
    found: dict[int, DecodeError] = {}
    for i, part in enumerate(("device", "process")):
        if not tables:
            continue
        try:
            _check_cells(pa.concat_tables([pair[i] for pair in tables.values()]), part)
        except DecodeError:
            for number, pair in tables.items():
                try:
                    _check_cells(pair[i], part)
                except DecodeError as error:
                    found.setdefault(number, error)
    return found


def _split(
    device: Columns, device_rows: list[int], process: Columns, process_rows: list[int]
) -> Iterator[tuple[Columns, Columns] | DecodeError]:
    """The messages of a batch, each checked; their columns are views of the batch's."""
    faulty = faulty_messages(device, device_rows, process, process_rows)
    has_mig = bool((device["mig_mode"] == 1).any())
    d, p = 0, 0
    for number, (devices, processes) in enumerate(zip(device_rows, process_rows, strict=True)):
        mine = {name: column[d : d + devices] for name, column in device.items()}
        rows = {name: column[p : p + processes] for name, column in process.items()}
        d, p = d + devices, p + processes
        if number in faulty:
            yield DecodeError(first_fault(mine, rows))
        else:
            yield _without_mig_parents(mine, rows) if has_mig else (mine, rows)


def encode_reading(device: Columns, process: Columns) -> bytes:
    """The payload that `decode_reading` reads: two Arrow IPC streams back to back."""
    sink = pa.BufferOutputStream()
    for columns, schema in ((device, DEVICE_SCHEMA), (process, PROCESS_SCHEMA)):
        batch = pa.record_batch([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _table(source: pa.BufferReader, part: str, schema: pa.Schema) -> pa.Table:
    """One stream of a payload as a table of its schema; texts may still be too long."""
    try:
        table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise DecodeError(f"{part} rows: not an Arrow IPC stream: {error}") from error
    if table.schema.equals(schema):
        return table
    names, types = table.schema.names, table.schema.types
    if names != schema.names or types != schema.types:
        raise DecodeError(f"{part} rows: columns {names} of {types}, expected {schema.names}")
    return pa.Table.from_arrays(table.columns, schema=schema)


def _check_cells(table: pa.Table, part: str) -> None:
    for field, column in zip(table.schema, table.columns, strict=True):
        if column.null_count:
            raise DecodeError(f"{part} rows: column {field.name} holds {column.null_count} nulls, it may hold none")
        if pa.types.is_string(field.type) and (pc.max(pc.utf8_length(column)).as_py() or 0) > MAX_TEXT:
            raise DecodeError(f"{part} rows: column {field.name} holds a text of more than {MAX_TEXT} characters")


def _columns(tables: list[pa.Table]) -> Columns:
    """Columns of tables put together; texts through a dictionary, so that equal ones are one object."""
    whole = pa.concat_tables(tables)
    columns: Columns = {}
    for field in whole.schema:
        column = whole.column(field.name)
        if pa.types.is_string(field.type):
            coded = column.combine_chunks().dictionary_encode()
            coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
            words = np.array([*coded.dictionary.to_pylist(), None], object)[:-1]
            columns[field.name] = words[coded.indices.to_numpy(zero_copy_only=False)]
        else:
            columns[field.name] = column.to_numpy()
    return columns


def _forget_reset_energy(device: Columns) -> None:
    """Energy over a counter's reset is not known; the rest of such a row, and its message, is as good as any."""
    reset = device["flags"] & ENERGY_RESET != 0
    device["energy_status"] = np.where(reset, STATUS_NOT_ASKED, device["energy_status"]).astype(np.int16)


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
