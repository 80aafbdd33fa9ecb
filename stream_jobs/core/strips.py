"""Strips: readings of one GPU in one message, in one window, under one snapshot and with one list of processes.

A strip's rows are those processes, with sums over its readings; its pieces are the readings as far as they lie in the
window. Rows and pieces of a strip lie together, wherever `row_first` and `piece_first` say.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .divide import Ints, expand

Columns = dict[str, Any]
STRIP = (
    "message", "gpu", "window_start_us", "mapping_seq", "rows", "pieces", "row_first", "piece_first", "start_us",
    "end_us", "observed_us", "energy_observed_us", "memory_observed_us", "lost_mj", "unattributed_us",
    "unattributed_mj", "listed", "allocated_us",
)  # fmt: skip
"""`listed`: bits of the pieces in which the driver told its lists of processes; `allocated_us`: observed, its use
unknown."""
ROW = (
    "pid", "start_ticks", "used_us", "variance_us2", "energy_mj", "memory_byte_ms", "memory_partial", "present",
)  # fmt: skip
"""`present`: bits of the pieces in which a list of the driver's showed the process."""
PIECE = ("start_us", "end_us", "idle_us", "idle_mj")
MOST_PIECES = 62
"""Of a strip, so that bits of its pieces fit into an integer."""


@dataclass(frozen=True, slots=True)
class Strips:
    """Columns of strips (STRIP), rows (ROW) and pieces (PIECE, and `reading` while it is known of which they are)."""

    strip: Columns
    row: Columns
    piece: Columns

    @property
    def size(self) -> int:
        """How many strips."""
        return int(self.strip["rows"].size)

    def rows_of(self, which: Any = slice(None)) -> tuple[Ints, Ints]:
        """Where the rows of some strips lie, strip by strip, and which of these each belongs to."""
        return expand(self.strip["row_first"][which], self.strip["rows"][which])

    def pieces_of(self, which: Any = slice(None)) -> tuple[Ints, Ints]:
        """Where the pieces of some strips lie, strip by strip, and which of these each belongs to."""
        return expand(self.strip["piece_first"][which], self.strip["pieces"][which])


def placed(strip: Columns) -> Columns:
    """Columns of strips whose rows and pieces lie in the order of the strips."""
    strip["row_first"] = np.cumsum(strip["rows"]) - strip["rows"]
    strip["piece_first"] = np.cumsum(strip["pieces"]) - strip["pieces"]
    return strip


def join(parts: list[Strips]) -> Strips:
    """Strips one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, np.int64)
        return Strips(dict.fromkeys(STRIP, none), dict.fromkeys(ROW, none), dict.fromkeys(("reading", *PIECE), none))
    strip = {name: np.concatenate([p.strip[name] for p in parts]) for name in STRIP}
    sizes = np.array([p.size for p in parts], np.int64)
    for name, columns in (
        ("row_first", [p.row["pid"] for p in parts]),
        ("piece_first", [p.piece["end_us"] for p in parts]),
    ):
        counts = np.array([column.size for column in columns], np.int64)
        strip[name] += np.repeat(np.cumsum(counts) - counts, sizes)
    return Strips(
        strip,
        {name: np.concatenate([p.row[name] for p in parts]) for name in ROW},
        {name: np.concatenate([p.piece[name] for p in parts]) for name in ("reading", *PIECE)},
    )


def chosen(strips: Strips, which: Ints) -> Strips:
    """Some strips, in the order asked for; rows and pieces stay where they are."""
    return Strips({name: column[which] for name, column in strips.strip.items()}, strips.row, strips.piece)


def by_message(strips: Strips) -> Strips:
    """Strips with those of a message together, in the order of messages."""
    return chosen(strips, np.argsort(strips.strip["message"], kind="stable"))
