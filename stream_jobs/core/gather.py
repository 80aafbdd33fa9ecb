"""Readings of many node windows brought together as strips, each on its GPU and with the message that it came in.

Owns which microsecond of a GPU counts when two collectors report it: the first by (boot order in the log, epoch,
sequence). Knows no pods. Law: pieces of a GPU do not overlap (tests/property/test_meter.py).
"""

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np

from .calendar import Calendar
from .divide import Ints
from .facts import FACTS, read_facts
from .held import AnyReading, HeldReading, columns_of
from .pieces import pieces
from .reduce import DEVICE_FIELDS, PROCESS_FIELDS, make_rows, reduce_pieces
from .strips import Columns, Strips, by_message, chosen, join
from .take_held import take_held
from .window import NodeWindow, SenderKey


@dataclass(slots=True)
class Gathered:
    """Strips and facts with `gpu` as a GPU of the batch; messages rise with their window.

    `window` and `senders` are per message; of the GPUs in `doubled` some time was reported twice.
    """

    strips: Strips
    facts: Columns
    window: Ints
    senders: list[SenderKey]
    doubled: frozenset[int]


@dataclass(slots=True)
class _Raw:
    """Readings one behind the other."""

    gpu: list[Any] = field(default_factory=list)
    message: list[Any] = field(default_factory=list)
    device: list[Columns] = field(default_factory=list)
    process: list[Columns] = field(default_factory=list)
    rows: int = 0

    def add(self, message: int, reading: AnyReading, numbers: dict[str, int]) -> None:
        """Adds a reading, its GPUs as numbers of the batch."""
        device, process = columns_of(reading)
        size = len(device["read_us"])
        self.gpu.append(np.array([numbers[uuid] for uuid in device["gpu_uuid"]], np.int64))
        self.message.append(np.full(size, message, np.int64))
        self.device.append(device)
        self.process.append(process | {"device_row": process["device_row"].astype(np.int64) + self.rows})
        self.rows += size


def gather(windows: list[NodeWindow], gpu_first: Ints) -> Gathered:
    """Strips of windows; `gpu_first` is the number of each window's first GPU."""
    of_message: list[int] = []
    readings: list[AnyReading] = []
    for w, window in enumerate(windows):
        mine = ranked(window)
        readings += mine
        of_message += [w] * len(mine)
    window_of = np.array(of_message, np.int64)
    whole = np.array([_is_reduced(window) for window in windows], bool)
    found = take_held(windows, readings, window_of, whole[window_of], gpu_first)
    whole[window_of[found.clashing]] = False
    kept = np.flatnonzero(whole[window_of[found.strips.strip["message"]]])
    facts = {name: column[whole[window_of[found.facts["message"]]]] for name, column in found.facts.items()}
    strips, doubled = (
        found.strips if kept.size == found.strips.strip["message"].size else chosen(found.strips, kept),
        frozenset[int](),
    )
    if not whole.all():
        raw = _Raw()
        for message in np.flatnonzero(~whole[window_of]).tolist():
            w = of_message[message]
            numbers = {device.gpu_uuid: int(gpu_first[w]) + i for i, device in enumerate(windows[w].devices)}
            raw.add(message, readings[message], numbers)
        more, said, doubled = _reduced(raw, windows, window_of)
        strips = by_message(join([strips, more]))
        facts = {name: np.concatenate([facts[name], said[name]]) for name in FACTS}
    return Gathered(strips, facts, window_of, [(r.boot_id, r.epoch_us) for r in readings], doubled)


def _is_reduced(window: NodeWindow) -> bool:
    """Whether all readings of a window were reduced, for windows as it is one."""
    calendar: Calendar | None = None
    for reading in window.readings:
        if not isinstance(reading, HeldReading) or reading.at in reading.block.odd:
            return False
        if reading.block.calendar is not calendar:
            calendar = reading.block.calendar
            if (
                calendar.start_of(window.start_us) != window.start_us
                or calendar.end_of(window.start_us) < window.end_us
            ):
                return False
    return True


def ranked(window: NodeWindow) -> list[AnyReading]:
    """Readings of a window by (boot order in the log, epoch, sequence)."""
    if len({(r.boot_id, r.epoch_us) for r in window.readings}) < 2:
        return sorted(window.readings, key=attrgetter("seq"))
    boots = {boot: i for i, boot in enumerate(window.boots)}
    return sorted(window.readings, key=lambda r: (boots.get(r.boot_id, len(boots)), r.epoch_us, r.seq))


def _reduced(raw: _Raw, windows: list[NodeWindow], window_of: Ints) -> tuple[Strips, Columns, frozenset[int]]:
    if not raw.rows:
        return join([]), dict.fromkeys(FACTS, np.zeros(0, np.int64)), frozenset()
    message, gpu = np.concatenate(raw.message), np.concatenate(raw.gpu)
    device = {name: np.concatenate([part[name] for part in raw.device]) for name in DEVICE_FIELDS}
    process = {name: np.concatenate([part[name] for part in raw.process]) for name in PROCESS_FIELDS}
    rows = make_rows(message, gpu, device, process)
    start, end = (np.array([getattr(w, name) for w in windows], np.int64) for name in ("start_us", "end_us"))
    own_start, own_end = start[window_of[message]], end[window_of[message]]
    part = pieces(gpu, device["span_start_us"], device["span_end_us"], message, own_start, own_end)
    order = np.lexsort((part.start_us, gpu[part.reading], message[part.reading]))
    reading = part.reading[order]
    strips = reduce_pieces(rows, reading, part.start_us[order], part.end_us[order], own_start[reading])
    inside = np.flatnonzero((device["read_us"] >= own_start) & (device["read_us"] < own_end))
    inside = inside[np.lexsort((gpu[inside], message[inside]))]
    return strips, read_facts(rows, inside, own_start[inside]), part.doubled
