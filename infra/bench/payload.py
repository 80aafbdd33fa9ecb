"""Reading messages by the thousand: one payload of the node agent's own encoder, patched in place for each message.

Owns which bytes differ between messages. Law: what is patched decodes to what the agent would have sent
(tests/unit/infra/bench/test_fleet_log.py).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from collector.encode import IdentifiedProcess, Reading, encode_readings
from collector.sampling import DeviceReading, ProcessRow
from infra.bench.shape import GPUS_A_NODE, SECOND_US, FleetShape, behind_us, node_hex

MODEL = "NVIDIA H200"
SAMPLES_A_SECOND = 6
ENERGY_MJ_A_SECOND = 310_000
VARIANTS = 32
"""Different courses of utilisation; a node's messages go through them."""
_MARK = b"%%%%%%%%"
_UUID = "GPU-{}-5d1c-4f0e-9b7a-{:012x}"
FIRST_PID = 20_000


def gpu_uuid(node_digits: str, gpu: int) -> str:
    """UUID of a GPU."""
    return _UUID.format(node_digits, gpu)


def pid_of(gpu: int, process: int) -> int:
    """Process id of a GPU's process, the same on every node."""
    return FIRST_PID + 101 * gpu + 3 * process


def ticks_of(pid: int) -> int:
    """Its start time in clock ticks since boot."""
    return 500_000 + 7 * pid


class ReadingPayload:
    """Payloads of a fleet's readings."""

    def __init__(self, shape: FleetShape) -> None:
        self._shape, self._readings = shape, shape.readings_a_message
        self._bytes = bytearray(encode_readings(list(_template(shape))))
        self._device, after = _views(self._bytes, 0)
        self._process, _ = _views(self._bytes, after)
        self._number = np.repeat(np.arange(self._readings, dtype=np.int64), GPUS_A_NODE)
        self._behind_us = np.tile(np.array([behind_us(gpu) for gpu in range(GPUS_A_NODE)], np.int64), self._readings)
        self._energy_mj = ENERGY_MJ_A_SECOND * shape.reading_s
        self._sums, self._points = courses(shape)
        self._digits = np.frombuffer(b"".join(_uuids()), np.uint8).reshape(GPUS_A_NODE, -1)
        self._at = _uuids()[0].index(_MARK)

    def make(self, node: int, phase_us: int, number: int, mapping_seq: int) -> tuple[bytes, int]:
        """Payload of a node's message `number` (from 0), and up to when it is complete."""
        device, row = self._device, number * self._readings + self._number
        period_us = self._shape.reading_s * SECOND_US
        read_us = self._shape.start_us + phase_us + (row + 1) * period_us
        device["read_us"][:] = read_us
        device["span_end_us"][:] = read_us - self._behind_us
        device["span_start_us"][:] = read_us - self._behind_us - period_us
        device["energy_start_mj"][:] = row * self._energy_mj + 1_000_000_000
        device["energy_end_mj"][:] = (row + 1) * self._energy_mj + 1_000_000_000
        device["mapping_seq"][:] = mapping_seq
        variant = (node + 7 * number) % VARIANTS
        device["sample_sum_points"][:] = self._sums[variant]
        self._process["sm_util_points"][:] = self._points[variant]
        digits = np.frombuffer(node_hex(node), np.uint8)
        text = device["gpu_uuid"].reshape(self._readings, GPUS_A_NODE, -1)
        text[:, :, self._at : self._at + len(digits)] = digits
        complete_us = int(read_us[-1] - self._behind_us.max())
        return bytes(self._bytes), complete_us


def _uuids() -> list[bytes]:
    return [gpu_uuid(_MARK.decode(), gpu).encode() for gpu in range(GPUS_A_NODE)]


def _template(shape: FleetShape) -> Any:
    """Readings of one message as the agent's own encoder takes them; what differs between messages is a mark."""
    samples = SAMPLES_A_SECOND * shape.reading_s
    for _ in range(shape.readings_a_message):
        for gpu, uuid in enumerate(_uuids()):
            device = DeviceReading(
                uuid.decode(), gpu, MODEL, 0, 0, 0, samples, 0, 0, 0, 0, 141 << 30, 84 << 30, 0, 0, 0, 0, 0,
                0, [],
            )  # fmt: skip
            rows = [
                ProcessRow(pid_of(gpu, process), 0, -1, 10, 0, 0, 8 << 30, 1, -1, -1)
                for process in range(shape.processes)
            ]
            yield Reading(0, device, [IdentifiedProcess(ticks_of(row.pid), row) for row in rows])


def _views(buffer: bytearray, begin: int) -> tuple[dict[str, Any], int]:
    """Columns of an Arrow stream as arrays that write into the buffer (texts as bytes), and where the stream ends."""
    whole = pa.py_buffer(memoryview(buffer)[begin:])
    source = pa.BufferReader(whole)
    batch = pa.ipc.open_stream(source).read_next_batch()
    array = np.frombuffer(buffer, np.uint8)
    found: dict[str, Any] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        data = column.buffers()[-1]
        at = data.address - whole.address + begin
        if pa.types.is_string(field.type):
            found[field.name] = array[at : at + len(column) * len(column[0].as_py())].reshape(len(column), -1)
        else:
            width = field.type.bit_width // 8
            found[field.name] = array[at : at + len(column) * width].view(field.type.to_pandas_dtype())
    return found, begin + _length(whole)


def _length(whole: pa.Buffer) -> int:
    """Bytes of the first stream in a buffer."""
    source = pa.BufferReader(whole)
    pa.ipc.open_stream(source).read_all()
    return int(source.tell())


def courses(shape: FleetShape) -> tuple[Any, Any]:
    """Sums of a GPU's samples and points of its processes, per variant: some busy, some idle, some not named."""
    random, samples = np.random.default_rng(7), SAMPLES_A_SECOND * shape.reading_s
    readings = (VARIANTS, shape.readings_a_message * GPUS_A_NODE)
    busy = random.integers(0, 101, readings)
    sums = np.clip(busy * samples + random.integers(-5, 6, readings), 0, 100 * samples)
    weights = random.random((*readings, shape.processes)) * (random.random((*readings, shape.processes)) < 0.7)
    total = np.maximum(weights.sum(axis=2, keepdims=True), 1e-9)
    points = np.floor(weights / total * (sums / samples)[..., None]).astype(np.int32)
    points[weights == 0] = -1
    return sums, points.reshape(VARIANTS, -1)
