"""Idle time and energy divided over grants, piece by piece: held / max(1, all held), the rest unallocated.

Each piece is divided by itself in integers and the holders' parts added up; where a holder's part is the same function
of a piece's remainder, remainders are counted first (`by_remainder`), and the sums are the same to the microsecond
(tests/property/test_idle.py).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from schemas.ids import UNALLOCATED

from .batch import Batch
from .divide import Ints, cumulative_by, cut_amount, expand, sum_by
from .residents import Residents

_MOST_REMAINDERS = 64


@dataclass(frozen=True, slots=True)
class Idle:
    """Per holder: idle time and energy charged to it, and of that time the part while it was resident."""

    us: Ints
    energy_mj: Ints
    hot_us: Ints


class Subs(NamedTuple):
    """Parts of idle pieces, each in one segment: strip and bit of its piece, segment, time and energy."""

    strip: Ints
    bit: Ints
    segment: Ints
    us: Ints
    mj: Ints


class Pairs(NamedTuple):
    """Holders of segments: which parts [lower, upper) of `unit` are theirs."""

    segment: Ints
    holder: Ints
    lower: Ints
    upper: Ints
    unit: Ints


def divide_idle(batch: Batch, found: Residents) -> Idle:
    """Idle time and energy of every holder."""
    subs = _subs(batch)
    pairs, unit = _pairs(batch)
    full, mixed = _hot(batch, found)
    alone = mixed[pairs.holder] | (pairs.unit > _MOST_REMAINDERS)
    us, mj = by_remainder(subs, pairs, unit)
    hot = np.where(full[pairs.holder], us, 0)
    each = np.flatnonzero(alone)
    if each.size:
        us[each], mj[each], hot[each] = _one_by_one(batch, subs, Pairs(*(c[each] for c in pairs)), found)
    out = [sum_by(pairs.holder, values, batch.holders) for values in (us, mj, hot)]
    unallocated = batch.of_gpu[UNALLOCATED][batch.segment["gpu"]]
    for total, shared, of in ((subs.us, us, out[0]), (subs.mj, mj, out[1])):
        rest = sum_by(subs.segment, total, unit.size) - sum_by(pairs.segment, shared, unit.size)
        np.add.at(of, unallocated, rest)
    return Idle(*out)


def _subs(batch: Batch) -> Subs:
    strip, piece = batch.strips.strip, batch.strips.piece
    idle, of_piece = batch.strips.pieces_of()
    some = piece["idle_us"][idle] > 0
    idle, of_piece = idle[some], of_piece[some]
    bit = idle - strip["piece_first"][of_piece]
    gpu = strip["gpu"][of_piece]
    origin = batch.start_us[gpu]
    x0, x1 = piece["start_us"][idle] - origin, piece["end_us"][idle] - origin
    # Times within the GPU's window, one behind the other: with times since 1970 the 5,000th GPU would overflow 64 bits.
    stride = int(batch.length_us.max(initial=0)) + 1
    segments = batch.segment
    edges = segments["gpu"] * stride + segments["start_us"]
    first = np.searchsorted(edges, gpu * stride + x0, side="right") - 1
    last = np.searchsorted(edges, gpu * stride + x1, side="left")
    us, mj = piece["idle_us"][idle], piece["idle_mj"][idle]
    if bool((last - first == 1).all()):
        return Subs(of_piece, bit, first, us, mj)
    segment, item = expand(first, last - first)
    a = np.maximum(x0[item], segments["start_us"][segment]) - x0[item]
    b = np.minimum(x1[item], segments["end_us"][segment]) - x0[item]
    length = (x1 - x0)[item]
    return Subs(
        of_piece[item], bit[item], segment, cut_amount(us[item], length, a, b), cut_amount(mj[item], length, a, b)
    )


def _pairs(batch: Batch) -> tuple[Pairs, Ints]:
    """Holders of segments, and the unit of each segment."""
    segments = batch.segment
    at, segment = expand(segments["held_first"], segments["held_count"])
    slots = batch.held["slots"][at]
    upper = cumulative_by(segment, slots)
    unit = np.maximum(sum_by(segment, slots, segments["gpu"].size), segments["slots"])
    return Pairs(segment, batch.held["holder"][at], upper - slots, upper, unit[segment]), unit


def _hot(batch: Batch, found: Residents) -> tuple[Ints, Ints]:
    """Per holder: whether it was resident in all idle pieces of its GPU, and whether in some but not in all."""
    strip, piece = batch.strips.strip, batch.strips.piece
    at, item = batch.strips.pieces_of()
    bits = np.where(piece["idle_us"][at] > 0, np.int64(1) << (at - strip["piece_first"][item]), 0)
    first = np.cumsum(strip["pieces"]) - strip["pieces"]
    idle = np.bitwise_or.reduceat(bits, first) if first.size else bits
    idle_strips = sum_by(strip["gpu"], (idle != 0).astype(np.int64), batch.gpus)[batch.gpu]
    wanted = idle[found.strip]
    there = found.pieces & wanted
    some = sum_by(found.holder, (there != 0).astype(np.int64), batch.holders)
    whole = sum_by(found.holder, ((there == wanted) & (wanted != 0)).astype(np.int64), batch.holders)
    full = (whole == idle_strips) & (some > 0)
    return full, ~full & (some > 0)


def by_remainder(subs: Subs, pairs: Pairs, unit: Ints) -> tuple[Ints, Ints]:
    """Sums over each segment's parts of floor(part x upper / unit) - floor(part x lower / unit), of time and energy.

    With part = q x unit + r these are q x (upper - lower) + floor(r x upper / unit) - floor(r x lower / unit), and of
    the remainders r there are few. Pairs of a larger unit are left at 0.
    """
    few = unit <= _MOST_REMAINDERS
    kinds = int(unit[few].max(initial=1))
    out = []
    remainder = np.arange(kinds)
    mine = few[pairs.segment]
    steps = (
        remainder * pairs.upper[:, None] // pairs.unit[:, None]
        - remainder * pairs.lower[:, None] // pairs.unit[:, None]
    )
    for amount in (subs.us, subs.mj):
        whole = amount // unit[subs.segment]
        left = np.where(few[subs.segment], amount - whole * unit[subs.segment], 0)
        counts = np.bincount(subs.segment * kinds + left, minlength=unit.size * kinds).reshape(unit.size, kinds)
        sums = sum_by(subs.segment, whole, unit.size)[pairs.segment] * (pairs.upper - pairs.lower)
        sums += (counts[pairs.segment] * steps).sum(axis=1)
        out.append(np.where(mine, sums, 0))
    return out[0], out[1]


def _one_by_one(batch: Batch, subs: Subs, pairs: Pairs, found: Residents) -> tuple[Ints, Ints, Ints]:
    """Time, energy and time while resident of some holders of segments, part by part."""
    order = np.argsort(subs.segment, kind="stable")
    first = np.searchsorted(subs.segment[order], pairs.segment, side="left")
    last = np.searchsorted(subs.segment[order], pairs.segment, side="right")
    at, pair = expand(first, last - first)
    at = order[at]
    upper, lower, unit = pairs.upper[pair], pairs.lower[pair], pairs.unit[pair]
    us = subs.us[at] * upper // unit - subs.us[at] * lower // unit
    mj = subs.mj[at] * upper // unit - subs.mj[at] * lower // unit
    keys = found.strip * batch.holders + found.holder
    key = subs.strip[at] * batch.holders + pairs.holder[pair]
    spot = np.minimum(np.searchsorted(keys, key), max(keys.size - 1, 0))
    hot = (keys[spot] == key) & (found.pieces[spot] >> subs.bit[at] & 1 > 0) if keys.size else np.zeros(key.size, bool)
    size = pairs.segment.size
    return sum_by(pair, us, size), sum_by(pair, mj, size), sum_by(pair, us * hot, size)
