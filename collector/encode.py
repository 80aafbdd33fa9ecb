"""Readings as the payload of gpu-samples: the only importer of nanoarrow.

Two Arrow IPC streams back to back, devices and then their processes, columns as schemas/samples.py lists them. Arrow
without pyarrow, which alone would take 64 MiB of the node. Law: what is encoded here decodes with pyarrow to the same
values and types (tests/unit/collector/test_encode.py).
"""

import io
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import nanoarrow  # type: ignore[import-untyped]
from nanoarrow import ipc

from schemas.columns import Column
from schemas.samples import DEVICE_COLUMNS, PROCESS_COLUMNS

from .sampling import DeviceReading, ProcessRow

_TYPES = {
    "utf8": ("", nanoarrow.string(nullable=False)),
    "int8": ("b", nanoarrow.int8(nullable=False)),
    "int16": ("h", nanoarrow.int16(nullable=False)),
    "int32": ("i", nanoarrow.int32(nullable=False)),
    "int64": ("q", nanoarrow.int64(nullable=False)),
}


class IdentifiedProcess(NamedTuple):
    """A process row and the start time that says which process it is."""

    start_ticks: int
    row: ProcessRow


class Reading(NamedTuple):
    """A device's reading as it goes out: under which snapshot, and whose processes."""

    mapping_seq: int
    device: DeviceReading
    processes: list[IdentifiedProcess]

    def as_json(self) -> dict[str, Any]:
        """The reading for people."""
        device = self.device._asdict() | {"mapping_seq": self.mapping_seq}
        return device | {"processes": [{"start_ticks": p.start_ticks} | p.row._asdict() for p in self.processes]}


class _Layout:
    """Arrow schema of a list of columns, made once."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.codes = [_TYPES[column.type][0] for column in columns]
        self.types = [nanoarrow.c_schema(_TYPES[column.type][1]) for column in columns]
        self.whole = nanoarrow.c_schema(nanoarrow.struct({c.name: _TYPES[c.type][1] for c in columns}, nullable=False))


_DEVICES = _Layout(DEVICE_COLUMNS)
_PROCESSES = _Layout(PROCESS_COLUMNS)


def encode_readings(readings: Iterable[Reading]) -> bytes:
    """Payload of one gpu-samples message."""
    devices: list[tuple[Any, ...]] = []
    processes: list[tuple[Any, ...]] = []
    for device_row, (mapping_seq, device, of_device) in enumerate(readings):
        sizes = (device.parent_uuid, device.slices, device.slices_total)
        devices.append((*device[:17], mapping_seq, device.dropped_rows, device.flags, *sizes))
        processes += [
            (
                device_row, row.pid, start_ticks, row.sm_points, row.mem_points, row.enc_points, row.dec_points,
                row.memory_bytes, row.lists, row.gpu_instance_id, row.compute_instance_id,
            )
            for start_ticks, row in of_device
        ]  # fmt: skip
    out = io.BytesIO()
    _write(out, _DEVICES, devices)
    _write(out, _PROCESSES, processes)
    return out.getvalue()


def _write(out: io.BytesIO, layout: _Layout, rows: list[tuple[Any, ...]]) -> None:
    columns = zip(*rows, strict=True) if rows else [()] * len(layout.codes)
    children = [
        _strings(column) if code == "" else _integers(kind, code, column)
        for code, kind, column in zip(layout.codes, layout.types, columns, strict=True)
    ]
    whole = nanoarrow.c_array_from_buffers(layout.whole, len(rows), [None], 0, children=children)
    with ipc.StreamWriter.from_writable(out) as writer:
        writer.write_array(whole)


def _integers(kind: Any, code: str, column: Sequence[int]) -> Any:
    return nanoarrow.c_array_from_buffers(kind, len(column), [None, array(code, column)], 0)


def _strings(column: Sequence[str]) -> Any:
    offsets, text = array("i", [0]), bytearray()
    for value in column:
        text += value.encode()
        offsets.append(len(text))
    return nanoarrow.c_array_from_buffers(_TYPES["utf8"][1], len(column), [None, offsets, bytes(text)], 0)
