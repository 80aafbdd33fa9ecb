"""The payload of gpu-samples, read as the jobs read it."""

import pyarrow as pa
import pytest
from pyarrow import ipc

from collector.encode import IdentifiedProcess, Reading, encode_readings
from collector.sampling import DeviceReading, ProcessRow
from schemas.columns import Column
from schemas.samples import DEVICE_COLUMNS, PROCESS_COLUMNS

ARROW = {"utf8": pa.utf8(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64()}


def _decode(payload: bytes) -> tuple[pa.Table, pa.Table]:
    source = pa.BufferReader(payload)
    return ipc.open_stream(source).read_all(), ipc.open_stream(source).read_all()


def _schema(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(column.name, ARROW[column.type], nullable=False) for column in columns])


def _reading(number: int, processes: int) -> Reading:
    device = DeviceReading(
        f"GPU-{number}-ü", number, "NVIDIA H100", 2**50, 2**50 - 5, 2**50, 30, 3000, -1, 999, 6,
        2**62, -1, 2**60, 2**61, 15, -1, 98, 31, [], "GPU-ü", 3, 7,
    )  # fmt: skip
    rows = [ProcessRow(2**22 - n, 1, 100, -1, 0, 5, 2**40 + n, 7, -1, 3) for n in range(processes)]
    return Reading(2**40 + number, device, [IdentifiedProcess(2**41 + n, row) for n, row in enumerate(rows)])


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (0, 3, 0), (10,) * 8])
def test_encode_decodes_with_pyarrow(sizes: tuple[int, ...]) -> None:
    """Two streams back to back, with the schema's columns and types and every value as it was given."""
    readings = [_reading(number, size) for number, size in enumerate(sizes)]
    devices, processes = _decode(encode_readings(readings))
    assert devices.schema == _schema(DEVICE_COLUMNS)
    assert processes.schema == _schema(PROCESS_COLUMNS)
    for row, reading in zip(devices.to_pylist(), readings, strict=True):
        expected = reading.device._asdict() | {"mapping_seq": reading.mapping_seq}
        assert row == {column.name: expected[column.name] for column in DEVICE_COLUMNS}
    flat = [(n, one) for n, reading in enumerate(readings) for one in reading.processes]
    for row, (device_row, (start_ticks, process)) in zip(processes.to_pylist(), flat, strict=True):
        assert list(row.values()) == [
            device_row, process.pid, start_ticks, process.sm_points, process.mem_points, process.enc_points,
            process.dec_points, process.memory_bytes, process.lists, process.gpu_instance_id,
            process.compute_instance_id,
        ]  # fmt: skip


def test_encode_column_order_is_the_schema() -> None:
    """The reading's own fields stand in the order of the schema's columns, so none is put under another's name."""
    names = [column.name for column in DEVICE_COLUMNS if column.name != "mapping_seq"]
    assert [field for field in DeviceReading._fields if field != "processes"] == names


def test_reading_as_json_has_processes() -> None:
    """The form for people holds the device, its snapshot and its processes with their start."""
    shown = _reading(0, 2).as_json()
    assert shown["mapping_seq"] == 2**40 and [one["start_ticks"] for one in shown["processes"]] == [2**41, 2**41 + 1]
