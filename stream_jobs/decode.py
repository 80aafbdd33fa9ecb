"""Decodes gpu-samples payloads into columns, many at once, and refuses what cannot be true.

Knows Arrow and the record's schema; nothing of windows or holders. A payload that fails here can never succeed, so
the caller sends it to dead letters with the error's text (tests/unit/stream_jobs/test_decode.py). Messages are put
together before their columns are looked at: the cost is per column of a batch, not per column of a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import Column
from schemas.ids import FREE_SLICES
from schemas.limits import MAX_TEXT
from schemas.samples import DEVICE_COLUMNS, DEVICE_DEFAULTS, ENERGY_RESET, PROCESS_COLUMNS
from schemas.units import STATUS_NOT_ASKED

from .arrow_streams import StreamReader
from .decode_checks import Columns, faulty_messages, first_fault
from .mig_rows import by_instances

_ARROW_TYPES: dict[str, pa.DataType] = {
    "utf8": pa.string(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "list<utf8>": pa.list_(pa.string()),
}


Ints = np.ndarray[Any, np.dtype[np.int64]]


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


@dataclass(frozen=True, slots=True)
class Block:
    """Messages decoded together: their rows one behind the other, `device_row` counting anew in each.

    `numbers` says which payload each message was; text columns are numbers of the sorted `words`.
    """

    numbers: list[int]
    device: Columns
    process: Columns
    device_rows: Ints
    process_rows: Ints
    words: dict[str, list[str]]

    def message(self, at: int) -> tuple[Columns, Columns]:
        """Columns of one message, its texts as objects."""
        d, p = int(self.device_rows[:at].sum()), int(self.process_rows[:at].sum())
        device = {name: column[d : d + int(self.device_rows[at])] for name, column in self.device.items()}
        for name, words in self.words.items():
            device[name] = np.array([*words, None], object)[:-1][device[name]]
        return device, {name: column[p : p + int(self.process_rows[at])] for name, column in self.process.items()}


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Arrow schema of a list of columns."""
    return pa.schema([pa.field(c.name, _ARROW_TYPES[c.type], nullable=c.nullable) for c in columns])


DEVICE_SCHEMA = arrow_schema(DEVICE_COLUMNS)
PROCESS_SCHEMA = arrow_schema(PROCESS_COLUMNS)
Names = tuple[Sequence[str], Sequence[str]]
"""Names of device and of process columns."""
METER_COLUMNS: Names = (
    (
        "gpu_uuid", "gpu_model", "read_us", "span_start_us", "span_end_us", "sample_count", "sample_sum_points",
        "samples_status", "processes_status", "lists_status", "energy_start_mj", "energy_end_mj", "energy_status",
        "mig_mode", "mapping_seq", "flags", "parent_uuid", "slices", "slices_total",
    ),
    ("device_row", "pid", "start_ticks", "sm_util_points", "memory_used_bytes", "lists"),
)  # fmt: skip
"""Those that change a figure."""
_STREAMS = (("device", StreamReader(DEVICE_SCHEMA, DEVICE_DEFAULTS)), ("process", StreamReader(PROCESS_SCHEMA)))
_Tables = tuple[pa.Table, pa.Table]
_Parts = dict[int, tuple[list[pa.RecordBatch], list[pa.RecordBatch]]]
"""Batches of devices and of processes, by number of the payload."""


def decode_reading(payload: bytes) -> tuple[Columns, Columns]:
    """Device and process columns of a payload; DecodeError names what is wrong with it."""
    (decoded,) = decode_readings([payload])
    if isinstance(decoded, DecodeError):
        raise decoded
    return decoded


def decode_readings(payloads: Sequence[bytes]) -> list[tuple[Columns, Columns] | DecodeError]:
    """Columns of each payload, or what is wrong with it; one bad payload costs the others nothing."""
    block, faults = decode_block(payloads, (DEVICE_SCHEMA.names, PROCESS_SCHEMA.names))
    out: list[tuple[Columns, Columns] | DecodeError] = [faults.get(n, DecodeError("")) for n in range(len(payloads))]
    for at, number in enumerate(block.numbers):
        out[number] = block.message(at)
    return out


def decode_block(payloads: Sequence[bytes], names: Names = METER_COLUMNS) -> tuple[Block, dict[int, DecodeError]]:
    """The payloads that can be true as one block of some columns, and what is wrong with each of the others."""
    faults: dict[int, DecodeError] = {}
    parts: _Parts = {}
    for number, payload in enumerate(payloads):
        try:
            parts[number] = _read(payload)
        except DecodeError as error:
            faults[number] = error
    tables = _tables(parts)
    if bad := _bad_cells(parts, tables):
        faults |= bad
        parts = {number: part for number, part in parts.items() if number not in bad}
        tables = _tables(parts)
    block = _block(parts, tables, names)
    if untrue := _untrue(block):
        faults |= untrue
        parts = {number: part for number, part in parts.items() if number not in untrue}
        block = _block(parts, _tables(parts), names)
    return by_instances(block), faults


def _read(payload: bytes) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """The two streams of a payload; nothing in them is to be looked at before it is validated."""
    at, found = 0, []
    for part, stream in _STREAMS:
        try:
            batches, at = stream.read(payload, at)
        except (pa.ArrowException, OSError) as error:
            raise DecodeError(f"{part} rows: not an Arrow IPC stream: {error}") from error
        except ValueError as error:
            raise DecodeError(f"{part} rows: {error}") from error
        found.append(batches)
    return found[0], found[1]


def _tables(parts: _Parts) -> _Tables:
    device = pa.Table.from_batches([b for batches, _ in parts.values() for b in batches], DEVICE_SCHEMA)
    process = pa.Table.from_batches([b for _, batches in parts.values() for b in batches], PROCESS_SCHEMA)
    return device, process


def _bad_cells(parts: _Parts, tables: _Tables) -> dict[int, DecodeError]:
    """Errors of the messages with broken buffers, nulls or texts too long; one by one only if the whole has some."""
    try:
        _check_cells(*tables)
    except DecodeError as error:
        if len(parts) == 1:
            return dict.fromkeys(parts, error)
        found: dict[int, DecodeError] = {}
        for number, part in parts.items():
            found |= _bad_cells({number: part}, _tables({number: part}))
        return found
    return {}


def _check_cells(*tables: pa.Table) -> None:
    for (part, _), table in zip(_STREAMS, tables, strict=True):
        try:
            table.validate(full=True)
        except pa.ArrowException as error:
            raise DecodeError(f"{part} rows: not an Arrow IPC stream: {error}") from error
        for field, column in zip(table.schema, table.columns, strict=True):
            if column.null_count:
                raise DecodeError(f"{part} rows: column {field.name} holds {column.null_count} nulls, it may hold none")
            if pa.types.is_string(field.type) and _is_too_long(column):
                raise DecodeError(f"{part} rows: column {field.name} holds a text of more than {MAX_TEXT} characters")
        if part == "device" and pc.min(pc.binary_length(table.column("gpu_uuid"))).as_py() == 0:
            raise DecodeError("device rows: column gpu_uuid holds an empty text, no GPU has such a name")
        if part == "device" and pc.any(pc.ends_with(table.column("gpu_uuid"), FREE_SLICES)).as_py():
            raise DecodeError(f"device rows: column gpu_uuid ends in {FREE_SLICES}, which only the meter may say")


def _is_too_long(column: pa.ChunkedArray) -> bool:
    """Whether some text has more characters than it may; most have no more bytes."""
    if (pc.max(pc.binary_length(column)).as_py() or 0) <= MAX_TEXT:
        return False
    return int(pc.max(pc.utf8_length(column)).as_py()) > MAX_TEXT


def _block(parts: _Parts, tables: _Tables, names: Names) -> Block:
    device_table, process_table = tables
    rows = [np.array([sum(b.num_rows for b in pair[i]) for pair in parts.values()], np.int64) for i in (0, 1)]
    words: dict[str, list[str]] = {}
    device: Columns = {}
    for field in map(DEVICE_SCHEMA.field, names[0]):
        if pa.types.is_string(field.type):
            device[field.name], words[field.name] = _coded(device_table.column(field.name))
        else:
            device[field.name] = device_table.column(field.name).to_numpy()
    _forget_reset_energy(device)
    process: Columns = {name: process_table.column(name).to_numpy() for name in names[1]}
    return Block(list(parts), device, process, rows[0], rows[1], words)


def _coded(column: pa.ChunkedArray) -> tuple[Any, list[str]]:
    """Texts as numbers of sorted distinct words."""
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    words = coded.dictionary.to_pylist()
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words), np.int32)
    place[order] = np.arange(len(words), dtype=np.int32)
    return place[coded.indices.to_numpy()], [words[i] for i in order]


def _untrue(block: Block) -> dict[int, DecodeError]:
    faulty = faulty_messages(block.device, block.device_rows, block.process, block.process_rows)
    return {block.numbers[at]: DecodeError(first_fault(*block.message(at))) for at in sorted(faulty)}


def encode_reading(device: Columns, process: Columns) -> bytes:
    """The payload that `decode_reading` reads: two Arrow IPC streams; device columns may be version 1's."""
    sink = pa.BufferOutputStream()
    size = len(device["read_us"])
    told = {name: np.array([value] * size) for name, value in DEVICE_DEFAULTS.items()}
    for columns, schema in ((told | device, DEVICE_SCHEMA), (process, PROCESS_SCHEMA)):
        batch = pa.record_batch([pa.array(columns[f.name], f.type) for f in schema], schema=schema)
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _forget_reset_energy(device: Columns) -> None:
    """Energy over a counter's reset is not known; the rest of such a row, and its message, is as good as any."""
    reset = device["flags"] & ENERGY_RESET != 0
    if reset.any():
        device["energy_status"] = np.where(reset, STATUS_NOT_ASKED, device["energy_status"]).astype(np.int16)
