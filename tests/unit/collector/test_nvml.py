"""The driver's functions as data, and the layouts of its rows."""

import struct
from typing import Any

import pytest

from collector import nvml
from collector.nvml_rows import RowBuffer, lists_are_garbled, sample_layout

ROW = struct.Struct("=QQ")


def test_nvml_missing_function_is_a_code(library: Any) -> None:
    """A function that the driver lacks answers 13, as data."""
    library.missing = {"nvmlDeviceGetSamples"}
    _, handle = nvml.device_handle(0)
    assert nvml.utilisation_samples(handle, 0) == (13, [])


def test_nvml_memory_falls_back_to_the_older_call(library: Any) -> None:
    """Without version 2 of the memory call the older one answers; without both, memory is unknown and not 0."""
    _, handle = nvml.device_handle(0)
    library.codes = {"nvmlDeviceGetMemoryInfo_v2": 13}
    assert nvml.memory_bytes(handle) == (80 << 30, 9 << 30)
    library.codes = {"nvmlDeviceGetMemoryInfo_v2": 3}
    assert nvml.memory_bytes(handle) == (-1, -1)


def test_row_buffer_gives_up_after_three_growths() -> None:
    """A driver that always asks for more room gets an answer of INSUFFICIENT_SIZE and no rows."""
    asked = []
    assert RowBuffer(ROW, 2).fill(lambda count, rows: asked.append(count._obj.value) or 7) == (7, 0)
    assert asked == [2, 4, 8, 16]


def test_row_buffer_never_reads_past_its_room() -> None:
    """A count above the room there was is cut to the room."""

    def lie(count: Any, rows: Any) -> int:
        count._obj.value = 1000
        return 0

    assert RowBuffer(ROW, 2).fill(lie) == (0, 2)


@pytest.mark.parametrize(
    ("value_type", "raw", "value"),
    [(0, struct.pack("=Qd", 5, 42.0), 42), (1, struct.pack("=QI4x", 5, 42), 42), (3, struct.pack("=QQ", 5, 42), 42)],
)
def test_sample_layout_follows_the_value_type(value_type: int, raw: bytes, value: int) -> None:
    """The union of a sample is read by the type that the driver names."""
    assert sample_layout(value_type).unpack(raw) == (5, value)


@pytest.mark.parametrize(
    ("version", "garbled"),
    [
        ("535.54.03", True),
        ("535.86.10", True),
        ("535.98", False),
        ("535.129.03", False),
        ("580.95.05", False),
        ("", False),
    ],
)
def test_lists_are_garbled_only_by_those_drivers(version: str, garbled: bool) -> None:
    """Drivers 535.43 to 535.97 shipped another struct under the same name."""
    assert lists_are_garbled(version) is garbled
