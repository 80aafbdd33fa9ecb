"""Integer columns kept in as few bytes as their values need, for what is held until windows close.

Law: what is taken out is what was put in (tests/unit/stream_jobs/core/test_narrow.py).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .divide import Ints

_TYPES = tuple((np.iinfo(kind).max, kind) for kind in (np.uint8, np.uint16, np.uint32))


@dataclass(frozen=True, slots=True)
class Narrow:
    """Values as `base` + (`cells` << `shift`); without cells all are `base`."""

    base: int
    shift: int
    cells: Any

    @property
    def size_bytes(self) -> int:
        """Bytes of the cells."""
        return 0 if self.cells is None else int(self.cells.nbytes)

    def take(self, index: Ints) -> Ints:
        """Values of some rows."""
        if self.cells is None:
            return np.full(index.size, self.base, np.int64)
        return self._wide(self.cells[index])

    def part(self, start: int, end: int) -> Ints:
        """Values of rows start..end-1."""
        if self.cells is None:
            return np.full(end - start, self.base, np.int64)
        return self._wide(self.cells[start:end])

    def _wide(self, cells: Any) -> Ints:
        values: Ints = cells.astype(np.int64)
        if self.shift:
            values <<= self.shift
        if self.base:
            values += self.base
        return values


def narrow(column: Any) -> Narrow:
    """An integer column, narrowed."""
    if not column.size:
        return Narrow(0, 0, None)
    base, most = int(column.min()), int(column.max())
    if base == most:
        return Narrow(base, 0, None)
    if most - base < 2**63:
        # Where all are multiples of a page, as bytes of memory are, the zeros below are not kept.
        if most - base > _TYPES[1][0]:
            offset = column.astype(np.int64) - base
            bits = int(np.bitwise_or.reduce(offset))
            shift = (bits & -bits).bit_length() - 1
        else:
            offset, shift = column - column.dtype.type(base), 0
        for largest, kind in _TYPES:
            if (most - base) >> shift <= largest:
                return Narrow(base, shift, (offset >> shift if shift else offset).astype(kind))
    return Narrow(0, 0, column.astype(np.int64))
