"""Layout of the driver's row arrays, and one reused buffer per kind of row. Knows bytes, not meaning.

Law: a buffer too small for the driver's rows grows and is asked again, at most three times
(tests/unit/collector/test_nvml.py). Layouts: nvml.h (nvmlSample_t, nvmlProcessUtilizationSample_t,
nvmlProcessInfo_t of the _v2 and _v3 calls).
"""

import re
import struct
from collections.abc import Callable, Iterator
from ctypes import Array, byref, c_char, c_uint
from typing import Any

from .answers import INSUFFICIENT_SIZE

SAMPLE_ROW = struct.Struct("=QQ")
PROCESS_ROW = struct.Struct("=I4xQIIII")
LIST_ROW = struct.Struct("=I4xQII")
GROWTHS = 3
_SAMPLE_VALUES = {0: "=Qd", 1: "=QI4x", 2: "=QQ", 3: "=QQ", 4: "=Qq", 5: "=Qi4x", 6: "=QH6x"}


class RowBuffer:
    """Room for rows of one layout, reused by every call."""

    def __init__(self, layout: struct.Struct, rows: int = 128) -> None:
        self._layout = layout
        self._capacity = rows
        self._bytes: Array[c_char] = (c_char * (rows * layout.size))()

    def fill(self, ask: Callable[[Any, Any], int]) -> tuple[int, int]:
        """Return code and number of rows of `ask(count by reference, buffer)`; grows where it was too small."""
        for _ in range(GROWTHS + 1):
            count = c_uint(self._capacity)
            status = ask(byref(count), self._bytes)
            if status != INSUFFICIENT_SIZE:
                return status, 0 if status else min(count.value, self._capacity)
            self._capacity = max(self._capacity * 2, count.value)
            self._bytes = (c_char * (self._capacity * self._layout.size))()
        return status, 0

    def rows(self, count: int, layout: struct.Struct | None = None) -> Iterator[tuple[Any, ...]]:
        """The first `count` rows as tuples."""
        chosen = layout or self._layout
        return chosen.iter_unpack(memoryview(self._bytes)[: count * chosen.size])


def sample_layout(value_type: int) -> struct.Struct:
    """Layout of nvmlSample_t by its nvmlValueType_t (double, unsigned int, ...)."""
    return struct.Struct(_SAMPLE_VALUES.get(value_type, "=QI4x"))


def lists_are_garbled(driver_version: str) -> bool:
    """Whether a driver's _v3 lists have a fifth field: 535.43 up to 535.98, where every second row is garbage."""
    parts = re.match(r"(\d+)\.(\d+)", driver_version)
    return parts is not None and parts[1] == "535" and 43 <= int(parts[2]) < 98
