"""Who had a context open on a GPU, in which pieces of its strips: a holder is there while one of its processes is."""

from dataclasses import dataclass

import numpy as np

from .batch import Batch
from .divide import Ints, sum_by


@dataclass(frozen=True, slots=True)
class Residents:
    """One row per strip and holder that was listed in it, sorted; `pieces` are the bits of the strip's pieces."""

    strip: Ints
    holder: Ints
    pieces: Ints


def residents(batch: Batch) -> Residents:
    """Residents of a batch, the processes of a holder together."""
    there, strip = batch.strips.rows_of()
    some = batch.strips.row["present"][there] != 0
    there, strip = there[some], strip[some]
    holder, bits = batch.row_holder[there], batch.strips.row["present"][there]
    order = np.argsort(strip * batch.holders + holder, kind="stable")
    strip, holder, bits = strip[order], holder[order], bits[order]
    new = np.ones(strip.size, bool)
    new[1:] = (strip[1:] != strip[:-1]) | (holder[1:] != holder[:-1])
    first = np.flatnonzero(new)
    together = np.bitwise_or.reduceat(bits, first) if first.size else bits
    return Residents(strip[first], holder[first], together)


def resident_us(batch: Batch, found: Residents) -> Ints:
    """Time with at least one context open, per holder."""
    strip, piece = batch.strips.strip, batch.strips.piece
    always = found.pieces == strip["listed"][found.strip]
    out = sum_by(found.holder[always], strip["memory_observed_us"][found.strip[always]], batch.holders)
    sometimes = np.flatnonzero(~always)
    if sometimes.size:
        mine = found.strip[sometimes]
        at, item = batch.strips.pieces_of(mine)
        was_there = found.pieces[sometimes][item] >> (at - strip["piece_first"][mine][item]) & 1
        size = (piece["end_us"] - piece["start_us"])[at]
        out += sum_by(found.holder[sometimes][item], size * was_there, batch.holders)
    return out
