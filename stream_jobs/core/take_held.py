"""Takes the strips of held messages out of their blocks, many messages of a block at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .divide import Ints, expand
from .facts import FACTS
from .held import AnyReading, HeldBlock, HeldReading
from .strips import PIECE, ROW, STRIP, Columns, Strips, by_message, join, placed
from .window import NodeWindow

_STRIP_WINDOW, _FACT_WINDOW = STRIP.index("window_start_us"), FACTS.index("window_start_us")


class Taken(NamedTuple):
    """Strips and facts, `message` and `gpu` as in the batch, and messages with a GPU that another reports, too."""

    strips: Strips
    facts: Columns
    clashing: Ints


def take_held(
    windows: list[NodeWindow], readings: Sequence[AnyReading], window_of: Ints, wanted: Ints, gpu_first: Ints
) -> Taken:
    """What the wanted readings were reduced to in their windows; `gpu_first` is each window's first GPU."""
    blocks: dict[int, HeldBlock] = {}
    messages: dict[int, list[int]] = {}
    for number in np.flatnonzero(wanted).tolist():
        reading = readings[number]
        assert isinstance(reading, HeldReading)
        blocks[id(reading.block)] = reading.block
        messages.setdefault(id(reading.block), []).append(number)
    starts = np.array([window.start_us for window in windows], np.int64)
    ends = np.array([window.end_us for window in windows], np.int64)
    strips, facts = [], []
    for key, numbers in messages.items():
        message = np.array(numbers, np.int64)
        at = np.array([_held(readings[n]).at for n in numbers], np.int64)
        place = _Place(message, *_gpus(blocks[key], at, window_of[message], windows, gpu_first))
        taken, said = _of_block(blocks[key], at, place, starts[window_of[message]])
        of_message = {n: held.flags for n in numbers if (held := _held(readings[n])).flags}
        if of_message:
            said["flags"] = said["flags"] | np.array([of_message.get(m, 0) for m in said["message"].tolist()], np.int64)
        strips.append(taken)
        facts.append(said)
    whole = by_message(join(strips)) if len(strips) > 1 else join(strips)
    none = np.zeros(0, np.int64)
    return Taken(
        whole, {n: np.concatenate([none, *(f[n] for f in facts)]) for n in FACTS}, _clashing(whole, ends[window_of])
    )


def _held(reading: AnyReading) -> HeldReading:
    assert isinstance(reading, HeldReading)
    return reading


class _Place(NamedTuple):
    """Where messages of a block are in the batch: their numbers, and their devices' as `table[first + place]`."""

    message: Ints
    first: Ints
    table: Ints


def _gpus(block: HeldBlock, at: Ints, window: Ints, windows: list[NodeWindow], gpu_first: Ints) -> tuple[Ints, Ints]:
    table: list[int] = []
    first: list[int] = []
    known: dict[tuple[int, int], int] = {}
    for i, w, number in zip(at.tolist(), window.tolist(), gpu_first[window].tolist(), strict=True):
        mine, devices = block.devices[i], windows[w].devices
        key = (id(mine), w)
        if key not in known:
            known[key] = len(table)
            if mine is devices or mine == devices:
                table += range(number, number + len(mine))
            else:
                places = {device.gpu_uuid: number + n for n, device in enumerate(devices)}
                table += [places[device.gpu_uuid] for device in mine]
        first.append(known[key])
    return np.array(first, np.int64), np.array(table, np.int64)


def _of_block(block: HeldBlock, at: Ints, place: _Place, window_start: Ints) -> tuple[Strips, Columns]:
    """Strips and facts of messages of a block in the window that starts when each of them says."""
    ids, item = _in_window(block.strip_first, block.strip[_STRIP_WINDOW], at, window_start)
    strip = dict(zip(STRIP, block.strip[:, ids], strict=True))
    rows, _ = expand(strip["row_first"], strip["rows"])
    pieces, _ = expand(strip["piece_first"], strip["pieces"])
    placed(strip)
    _put(strip, place, item)
    piece = {name: block.piece[name].take(pieces) for name in PIECE} | {"reading": pieces}
    strips = Strips(strip, {name: block.row[name].take(rows) for name in ROW}, piece)
    said, item = _in_window(block.fact_first, block.fact[_FACT_WINDOW], at, window_start)
    fact = dict(zip(FACTS, block.fact[:, said], strict=True))
    _put(fact, place, item)
    return strips, fact


def _in_window(first: Ints, window: Ints, at: Ints, window_start: Ints) -> tuple[Ints, Ints]:
    ids, item = expand(first[at], first[at + 1] - first[at])
    mine = window[ids] == window_start[item]
    return ids[mine], item[mine]


def _put(columns: Columns, place: _Place, item: Ints) -> None:
    columns["message"] = place.message[item]
    columns["gpu"] = place.table[place.first[item] + columns["gpu"]]


def _clashing(strips: Strips, window_end: Ints) -> Ints:
    """Messages whose first to last microsecond on a GPU meets another message's there, or outlasts its window."""
    message, gpu, start, end = (strips.strip[name] for name in ("message", "gpu", "start_us", "end_us"))
    order = np.lexsort((message, gpu))
    message, gpu, start, end = message[order], gpu[order], start[order], end[order]
    new = np.ones(order.size, bool)
    new[1:] = (gpu[1:] != gpu[:-1]) | (message[1:] != message[:-1])
    first = np.flatnonzero(new)
    if not first.size:
        return first
    message, gpu = message[first], gpu[first]
    start, end = np.minimum.reduceat(start, first), np.maximum.reduceat(end, first)
    outlasting = message[end > window_end[message]]
    order = np.lexsort((start, gpu))
    meets = (gpu[order][1:] == gpu[order][:-1]) & (start[order][1:] < end[order][:-1])
    return np.concatenate([message[order][1:][meets], outlasting])
