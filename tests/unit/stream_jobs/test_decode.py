"""Payloads that cannot be true are refused with column, row and value."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from schemas.samples import DEVICE_DEFAULTS, ENERGY_RESET
from schemas.units import STATUS_NOT_ASKED
from stream_jobs.arrow_streams import StreamReader
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, DecodeError, decode_reading, encode_reading
from stream_jobs.usage_messages import ipc_stream


def columns(device: dict[str, object] | None = None, process: dict[str, object] | None = None) -> bytes:
    """A payload of one GPU and one process with some values changed."""
    values = (
        dict.fromkeys(DEVICE_SCHEMA.names, 0)
        | DEVICE_DEFAULTS
        | {
            "gpu_uuid": "GPU-1",
            "gpu_model": "T",
            "read_us": 10_000_000,
            "span_start_us": 5_000_000,
            "span_end_us": 10_000_000,
            "sample_count": 30,
            "sample_sum_points": 600,
        }
    )
    row = dict.fromkeys(PROCESS_SCHEMA.names, 0) | {"pid": 7, "sm_util_points": 20}
    text = ("gpu_uuid", "gpu_model", "parent_uuid")
    parts = []
    for schema, cells in ((DEVICE_SCHEMA, values | (device or {})), (PROCESS_SCHEMA, row | (process or {}))):
        types = {f.name: object if f.name in text else f.type.to_pandas_dtype() for f in schema}
        parts.append({name: np.array([cells[name]], types[name]) for name in schema.names})
    return encode_reading(*parts)


def test_decode_gives_back_what_was_encoded() -> None:
    """A payload round-trips."""
    device, process = decode_reading(columns())
    assert device["gpu_uuid"].tolist() == ["GPU-1"]
    assert process["pid"].tolist() == [7]


@pytest.mark.parametrize(
    ("device", "process", "words"),
    [
        ({"span_end_us": 4_000_000}, {}, "span_end_us = 4000000: before span_start_us"),
        ({"span_end_us": 500_000_000}, {}, "a span above"),
        ({"span_start_us": -5}, {}, "span_start_us = -5"),
        ({"read_us": -(2**63)}, {}, "read_us = -9223372036854775808: not a time"),
        ({"read_us": 2**63 - 1}, {}, "read_us = 9223372036854775807: not a time"),
        ({"gpu_uuid": "G" * 513}, {}, "column gpu_uuid holds a text of more than 512"),
        ({"sample_count": -1}, {}, "sample_count = -1"),
        ({"sample_sum_points": 3001}, {}, "sample_sum_points = 3001"),
        ({"energy_end_mj": -9}, {}, "energy_end_mj = -9"),
        ({}, {"device_row": 3}, "device_row = 3: outside the message"),
        ({}, {"sm_util_points": 37100}, "sm_util_points = 37100"),
        ({}, {"pid": 0}, "pid = 0: not a process id"),
        ({}, {"memory_used_bytes": -2}, "memory_used_bytes = -2"),
        ({}, {"memory_used_bytes": 2**63 - 1}, "above 64 TiB"),
    ],
)
def test_decode_refuses_what_cannot_be_true(device: dict, process: dict, words: str) -> None:
    """An impossible value is refused with its column, row and value."""
    with pytest.raises(DecodeError, match=words):
        decode_reading(columns(device, process))


def test_decode_keeps_a_reading_whose_energy_counter_was_reset() -> None:
    """After a driver reload the counter is below its start: that energy is unknown, the reading counts."""
    told = columns({"energy_start_mj": 50, "energy_end_mj": 3, "flags": ENERGY_RESET})
    device, _ = decode_reading(told)
    assert (device["sample_count"].tolist(), device["energy_status"].tolist()) == ([30], [STATUS_NOT_ASKED])


@pytest.mark.parametrize("payload", [b"", b"{}", bytes(200), columns()[:-300]])
def test_decode_refuses_torn_payloads(payload: bytes) -> None:
    """Bytes that are no pair of Arrow streams are refused, never half read."""
    with pytest.raises(DecodeError):
        decode_reading(payload)


def test_decode_refuses_two_rows_of_one_process() -> None:
    """A pid with two rows of one reading would be counted twice."""
    device, process = decode_reading(columns())
    doubled = {name: np.concatenate([column, column]) for name, column in process.items()}
    with pytest.raises(DecodeError, match="two rows"):
        decode_reading(encode_reading(device, doubled))


def test_decode_meters_a_mig_gpu_by_its_instances() -> None:
    """The row of a GPU in MIG mode is left out beside its instances' rows, and process rows still point at theirs."""
    device, process = decode_reading(columns({"mig_mode": 1, "gpu_uuid": "GPU-1"}, {"pid": 5}))
    instance, own = decode_reading(columns({"mig_mode": 1, "gpu_uuid": "MIG-1"}, {"pid": 6}))
    own["device_row"] = own["device_row"] + 1
    both = encode_reading(
        {name: np.concatenate([device[name], instance[name]]) for name in device},
        {name: np.concatenate([process[name], own[name]]).astype(process[name].dtype) for name in process},
    )
    device, process = decode_reading(both)
    assert device["gpu_uuid"].tolist() == ["MIG-1"]
    assert (process["pid"].tolist(), process["device_row"].tolist()) == ([6], [0])


def test_decode_takes_a_pid_that_was_used_twice_in_a_span() -> None:
    """One pid with two start times is two processes."""
    device, process = decode_reading(columns())
    two = {name: np.concatenate([column, column]) for name, column in process.items()}
    two["start_ticks"] = np.array([1, 2], np.int64)
    assert decode_reading(encode_reading(device, two))[1]["start_ticks"].tolist() == [1, 2]


@pytest.mark.parametrize("ends", [(0, 1 << 30), (0, -(1 << 30)), (-7, 5)])
def test_decode_refuses_text_beyond_its_buffer(ends: tuple[int, int]) -> None:
    """Text whose ends point out of the message is refused; to read it would end the process by a signal."""
    payload = bytearray(columns())
    at = payload.find(struct.pack("<2i", 0, len("GPU-1")))
    payload[at : at + 8] = struct.pack("<2i", *ends)
    with pytest.raises(DecodeError, match="device rows"):
        decode_reading(bytes(payload))


def test_decode_refuses_text_that_is_no_text() -> None:
    """Bytes that are not UTF-8 are refused."""
    with pytest.raises(DecodeError, match="UTF8"):
        decode_reading(columns().replace(b"GPU-1", b"\xff\xfeU-1"))


def _stream(schema: pa.Schema, *batches: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def test_streams_of_a_known_schema_read_as_arrow_reads_them() -> None:
    """With its schema known, a stream of no, one or many batches, also torn, reads as Arrow's own reader reads it."""
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    batches = [pa.record_batch([pa.array(values, pa.int64())], schema=schema) for values in ([1, 2], [], [3])]
    reader = StreamReader(schema)
    for chosen in ([0], [0], [0, 2], [], [1], [2, 1, 0], [0]):
        payload = _stream(schema, *(batches[i] for i in chosen)) + b"behind"
        read, end = reader.read(b"before" + payload, len(b"before"))
        assert [value for batch in read for value in batch.column(0).to_pylist()] == [
            value for i in chosen for value in batches[i].column(0).to_pylist()
        ]
        assert end == len(b"before") + len(payload) - len(b"behind")
    with pytest.raises((pa.ArrowException, OSError)):
        reader.read(_stream(schema, batches[0])[:-40], 0)


def test_streams_of_other_columns_are_refused() -> None:
    """A stream whose columns have other names or types is refused, whatever was read before."""
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    reader = StreamReader(schema)
    for other in (pa.schema([("m", pa.int64())]), pa.schema([("n", pa.int32())])):
        with pytest.raises(ValueError, match="expected"):
            reader.read(_stream(other, pa.record_batch([[1]], schema=other)), 0)


def test_decode_reads_messages_of_version_1() -> None:
    """A stream without the columns that version 2 added is read as if it had them, at first and by the short way."""
    whole = columns()
    reader = pa.BufferReader(whole)
    device, process = (pa.ipc.open_stream(reader).read_all() for _ in range(2))
    old = b"".join(ipc_stream(t) for t in (device.drop_columns(list(DEVICE_DEFAULTS)), process))
    for payload in (old, old, whole, old):
        decoded, _ = decode_reading(payload)
        assert {name: decoded[name].tolist() for name in DEVICE_DEFAULTS} == {
            n: [v] for n, v in DEVICE_DEFAULTS.items()
        }
        assert decoded["sample_sum_points"].tolist() == [600]
