"""The engine of one GPU on a microsecond time line: which process's kernels are on it, at any time, without history.

Time is cut into slots of about 2 ms with jittered edges. A slot goes to one process or to idle by a number hashed from
(seed, slot), against the shares of the processes alive at that time; so samples taken at 6 Hz are independent draws.
Processes that together ask for more than the engine share it as a time-slicing scheduler does: who asks less than an
equal part gets it, the others divide the rest equally. Must not know NVML, pods or clocks.
Laws: busy over [a, c) = busy over [a, b) + busy over [b, c), to the microsecond; the sum of all is at most the length;
`owner_at` agrees with `busy_us` (tests/property/test_timeline.py).
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

SLOT_US = 2000
CHUNK_SLOTS = 32_768
_SHARE_BITS = 16
_JITTER_MASK = np.uint64(1023)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_FAR_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Load:
    """Demand on the engine, 0 to 1: `demand[i]` from `times_us[i]` on; before the first time it is 0."""

    times_us: Ints
    demand: Floats


@dataclass(frozen=True, slots=True)
class Lane:
    """A process on this engine: its life [start, end) and its demand."""

    start_us: int
    end_us: int | None
    load: Load


def mixed(seed: int, numbers: Words) -> Words:
    """64 hashed bits for each number (splitmix64's output function)."""
    state = (numbers + np.uint64(1)) * _GOLDEN
    state ^= np.uint64(seed)
    state ^= state >> np.uint64(30)
    state *= _MIX_1
    state ^= state >> np.uint64(27)
    state *= _MIX_2
    state ^= state >> np.uint64(31)
    return state


def seed_of(name: str, salt: int = 0) -> int:
    """64-bit seed of a name; the same everywhere."""
    low, high = zlib.crc32(name.encode(), salt & 0xFFFFFFFF), zlib.crc32(name.encode()[::-1], ~salt & 0xFFFFFFFF)
    return int(mixed(low | high << 32, np.zeros(1, np.uint64))[0])


def fair_shares(demand: Floats) -> Floats:
    """Shares of the engine, for demand of shape (processes, pieces): max-min fair where they ask for more than 1."""
    count = len(demand)
    ascending = np.sort(demand, axis=0)
    before = np.cumsum(ascending, axis=0) - ascending
    level = (1.0 - before) / (count - np.arange(count))[:, None]
    # The first of the ascending demands above its level caps itself and all larger ones.
    capped = ascending > level
    cap = np.where(capped.any(axis=0), np.take_along_axis(level, capped.argmax(axis=0)[None, :], axis=0)[0], np.inf)
    return np.minimum(demand, cap)


class Timeline:
    """The engine of one GPU; lanes are numbered as given, -1 is idle."""

    def __init__(self, seed: int, lanes: Sequence[Lane]) -> None:
        self._seed = seed
        self._count = len(lanes)
        edges = {-_FAR_US}
        for lane in lanes:
            edges.add(lane.start_us)
            edges.update(() if lane.end_us is None else (lane.end_us,))
            end_us = _FAR_US if lane.end_us is None else lane.end_us
            inside = (lane.load.times_us > lane.start_us) & (lane.load.times_us < end_us)
            edges.update(lane.load.times_us[inside].tolist())
        self._piece_start_us: Ints = np.array(sorted(edges), np.int64)
        self._bounds = self._bounds_of(lanes)
        self._tables: dict[int, npt.NDArray[np.uint8]] = {}

    def _bounds_of(self, lanes: Sequence[Lane]) -> Ints:
        """Cumulative shares in 1/65536, shape (pieces, lanes): 16 bits of a slot below bounds[p, i] mean lane <= i."""
        demand = np.zeros((len(lanes), len(self._piece_start_us)))
        for row, lane in enumerate(lanes):
            at = np.searchsorted(lane.load.times_us, self._piece_start_us, side="right") - 1
            alive = (self._piece_start_us >= lane.start_us) & (at >= 0)
            if lane.end_us is not None:
                alive &= self._piece_start_us < lane.end_us
            demand[row, alive] = np.clip(lane.load.demand[at[alive]], 0.0, 1.0)
        if not lanes:
            return np.zeros((len(self._piece_start_us), 0), np.int64)
        bounds = np.rint(np.cumsum(fair_shares(demand), axis=0) * (1 << _SHARE_BITS)).astype(np.int64)
        return np.ascontiguousarray(np.minimum(bounds, 1 << _SHARE_BITS).T)

    def _edges_us(self, first_slot: int, count: int) -> tuple[Ints, Words]:
        """Starts of `count` slots, and the hashed bits that made them."""
        slots = np.arange(first_slot, first_slot + count, dtype=np.int64)
        bits = mixed(self._seed, slots.astype(np.uint64))
        return slots * SLOT_US + (bits & _JITTER_MASK).astype(np.int64), bits

    def owner_at(self, times_us: Ints) -> Ints:
        """Lane on the engine at each time, -1 for none."""
        times_us = np.asarray(times_us, np.int64)
        slots = times_us // SLOT_US
        bits = mixed(self._seed, slots.astype(np.uint64))
        early = slots * SLOT_US + (bits & _JITTER_MASK).astype(np.int64) > times_us
        bits = np.where(early, mixed(self._seed, (slots - 1).astype(np.uint64)), bits)
        drawn = (bits >> np.uint64(64 - _SHARE_BITS)).astype(np.int64)
        pieces = np.searchsorted(self._piece_start_us, times_us, side="right") - 1
        owner = (self._bounds[pieces] <= drawn[:, None]).sum(axis=1, dtype=np.int64)
        return np.where(owner == self._count, -1, owner)

    def busy_us(self, start_us: int, end_us: int) -> Ints:
        """Microseconds of [start, end) with each lane on the engine, exact."""
        total = np.zeros(self._count, np.int64)
        edges = self._piece_start_us
        piece = int(np.searchsorted(edges, start_us, side="right")) - 1
        while start_us < end_us:
            stop_us = min(end_us, int(edges[piece + 1]) if piece + 1 < len(edges) else end_us)
            if self._count and self._bounds[piece, -1]:
                total += self._busy_in_piece(piece, start_us, stop_us)
            start_us, piece = stop_us, piece + 1
        return total

    def _busy_in_piece(self, piece: int, start_us: int, end_us: int) -> Ints:
        table = self._table(piece)
        total = np.zeros(self._count + 1, np.int64)
        # The slot before the nominal one may still run: edges are late by up to 1023 us.
        slot, last = start_us // SLOT_US - 1, (end_us - 1) // SLOT_US
        while slot <= last:
            count = min(CHUNK_SLOTS, last + 1 - slot)
            edges_us, bits = self._edges_us(slot, count + 1)
            edges_us = (
                np.clip(edges_us, start_us, end_us) if slot * SLOT_US < start_us or slot + count > last else edges_us
            )
            owner = table[(bits[:-1] >> np.uint64(64 - _SHARE_BITS)).astype(np.int64)]
            # Sums of a chunk stay far below 2**53, so the float of bincount is exact.
            total += np.bincount(owner, weights=np.diff(edges_us), minlength=self._count + 1).astype(np.int64)
            slot += count
        return total[:-1]

    def _table(self, piece: int) -> npt.NDArray[np.uint8]:
        """Owner by the slot's 16 bits; the number of lanes for idle."""
        table = self._tables.get(piece)
        if table is None:
            if len(self._tables) > 8:
                self._tables.clear()
            widths = np.diff(self._bounds[piece], prepend=0, append=1 << _SHARE_BITS)
            kind = np.uint8 if self._count < 255 else np.uint16
            table = np.repeat(np.arange(self._count + 1, dtype=kind), widths)
            self._tables[piece] = table
        return table
