"""Messages as they arrive: decoded many at once and reduced at once, ready to be held.

Process rows are summed per (GPU, process, snapshot, window) before it is known whose they are; a reading that crosses
windows has a piece in each. Owns no state. Tested in tests/property/test_held.py.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from schemas.units import NVML_SUCCESS
from stream_jobs.decode import Block, DecodeError, decode_block

from .calendar import Calendar
from .divide import Ints, expand
from .facts import FACTS, read_facts
from .held import Arrived, DeviceFacts, HeldBlock, Listing, listings_of
from .narrow import Narrow, narrow
from .reduce import DEVICE_FIELDS, Rows, make_rows, reduce_pieces
from .strips import PIECE, ROW, STRIP, Columns, Strips

_BLOCK_BYTES, _BLOCK_MESSAGES = 8_000_000, 1_000
"""Of a block: enough that the cost per block does not count. A message that is held holds its block (apart.py)."""


def arrive(payloads: Sequence[bytes], calendar: Calendar) -> list[Arrived | DecodeError]:
    """Each payload as a message of a block, or what is wrong with it."""
    out: list[Arrived | DecodeError] = []
    for part in _chunks(payloads):
        block, faults = decode_block(part)
        found = _arrived(block, calendar)
        out += [faults[n] if n in faults else next(found) for n in range(len(part))]
    return out


def _chunks(payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    start, size = 0, 0
    for end, payload in enumerate(payloads):
        if end > start and (size + len(payload) > _BLOCK_BYTES or end - start >= _BLOCK_MESSAGES):
            yield payloads[start:end]
            start, size = end, 0
        size += len(payload)
    if start < len(payloads):
        yield payloads[start:]


def _arrived(block: Block, calendar: Calendar) -> Iterator[Arrived]:
    device, messages = block.device, len(block.numbers)
    held = _hold(block, calendar)
    spans, read = device["span_end_us"] > device["span_start_us"], device["read_us"]
    bounds = (
        (np.minimum, np.where(spans, np.minimum(device["span_start_us"], read), read)),
        (np.maximum, np.where(spans, np.maximum(device["span_end_us"], read + 1), read + 1)),
        (np.maximum, read),
        (np.maximum, np.maximum(device["span_end_us"], read)),
        (np.add, device["span_end_us"] - device["span_start_us"]),
    )
    some = np.flatnonzero(block.device_rows)
    columns = np.zeros((len(bounds), messages), np.int64)
    for i, (of, values) in enumerate(bounds):
        if some.size:
            columns[i, some] = of.reduceat(values, held.device_first[some])
    for at, (rows, *times) in enumerate(zip(block.device_rows.tolist(), *columns.tolist(), strict=True)):
        yield Arrived(held, at, rows, *times)


def _hold(block: Block, calendar: Calendar) -> HeldBlock:
    messages = len(block.numbers)
    before = np.cumsum(block.device_rows) - block.device_rows
    message = np.repeat(np.arange(messages), block.device_rows)
    row = block.process["device_row"] + np.repeat(before, block.process_rows)
    code = block.device["gpu_uuid"].astype(np.int64)
    order = np.argsort(message * (code.max(initial=0) + 1) + code, kind="stable")
    ordinal, devices = _devices(block, message, order)
    fields = {name: block.device[name] for name in DEVICE_FIELDS}
    energy = fields["energy_end_mj"] - fields["energy_start_mj"]
    fields["energy_end_mj"] = np.where(fields["energy_status"] == NVML_SUCCESS, energy, 0)
    fields["energy_start_mj"] = np.zeros_like(energy)
    rows = make_rows(message, ordinal, fields, block.process | {"device_row": row})
    reading, start, end, window = _pieces(rows, order, calendar)
    odd = _out_of_order(rows, reading, start, end)
    if odd:
        whole = ~np.isin(rows.message[reading], list(odd))
        reading, start, end, window = (column[whole] for column in (reading, start, end, window))
    strips = reduce_pieces(rows, reading, start, end, window)
    facts = read_facts(rows, order, _bounds(calendar, fields["read_us"][order])[0])
    listed, lists = _lists(rows, strips)
    device = {name: fields[name] for name in DEVICE_FIELDS} | {"gpu": ordinal, "rows": rows.count}
    device |= {"first_row": rows.first, "list": listed}
    edges = np.arange(messages + 1)
    return HeldBlock(
        calendar=calendar,
        devices=devices,
        listings=_listings(block, message),
        strip=np.array([strips.strip[name] for name in STRIP], np.int64),
        row=_narrowed(strips.row, ROW),
        piece=_narrowed(strips.piece, PIECE),
        fact=np.array([facts[name] for name in FACTS], np.int64),
        device=_narrowed(device, device),
        process=_narrowed(rows.process, ("sm_util_points", "memory_used_bytes", "lists")),
        listed=_narrowed(lists, lists),
        strip_first=np.searchsorted(strips.strip["message"], edges),
        fact_first=np.searchsorted(facts["message"], edges),
        device_first=np.append(before, message.size),
        span_end_us=_span_ends(rows, messages),
        odd=odd,
    )


def _narrowed(columns: Columns, names: Any) -> dict[str, Narrow]:
    return {name: narrow(columns[name]) for name in names}


def _devices(block: Block, message: Ints, order: Ints) -> tuple[Ints, list[list[DeviceFacts]]]:
    """Each reading's place among the sorted devices of its message, and these devices."""
    code, model = block.device["gpu_uuid"][order], block.device["gpu_model"][order]
    sorted_message = message[order]
    new = np.ones(order.size, bool)
    new[1:] = (code[1:] != code[:-1]) | (sorted_message[1:] != sorted_message[:-1])
    first = np.flatnonzero(new)
    last = np.append(first[1:], order.size) - 1
    edges = np.searchsorted(sorted_message[first], np.arange(len(block.numbers) + 1))
    ordinal = np.empty(order.size, np.int64)
    ordinal[order] = np.cumsum(new) - 1 - edges[sorted_message]
    uuids, models = block.words["gpu_uuid"], block.words["gpu_model"]
    facts = [DeviceFacts(uuids[c], models[m]) for c, m in zip(code[first].tolist(), model[last].tolist(), strict=True)]
    if (block.device["slices_total"] > 1).any():
        parents = block.words["parent_uuid"]
        of_last = order[last]
        told = [block.device[name][of_last].tolist() for name in ("parent_uuid", "slices", "slices_total")]
        facts = [DeviceFacts(f.gpu_uuid, f.gpu_model, parents[p], *s) for f, p, *s in zip(facts, *told, strict=True)]
    ends = edges.tolist()
    return ordinal, [facts[a:b] for a, b in pairwise(ends)]


def _listings(block: Block, message: Ints) -> dict[int, list[Listing]]:
    """The devices of each reading, of messages with several readings of a GPU in MIG mode."""
    found = {}
    for at in np.unique(message[block.device["slices_total"] > 1]).tolist():
        listings = listings_of(block.message(at)[0])
        if len(listings) > 1:
            found[at] = listings
    return found


def _bounds(calendar: Calendar, times_us: Ints) -> tuple[Ints, Ints]:
    """Start and end of the window that holds each time."""
    sizes = np.array([rule.window_us for rule in calendar.rules], np.int64)
    begins = np.array([rule.effective_us for rule in calendar.rules[1:]], np.int64)
    size = sizes[np.searchsorted(begins, times_us, side="right")] if begins.size else sizes[0]
    start: Ints = times_us // size * size
    return start, start + size


def _pieces(rows: Rows, order: Ints, calendar: Calendar) -> tuple[Ints, Ints, Ints, Ints]:
    """Readings in an order, cut at the edges of windows: reading, start, end and start of the window of each piece."""
    start, end = rows.device["span_start_us"][order], rows.device["span_end_us"][order]
    some = np.flatnonzero(end > start)
    reading, start, end = order[some], start[some], end[some]
    window, window_end = _bounds(calendar, start)
    if bool((end <= window_end).all()):
        return reading, start, end, window
    parts = [(np.arange(reading.size), start, np.minimum(end, window_end), window)]
    while (left := np.flatnonzero(end > window_end)).size:
        place, start, end = parts[-1][0][left], window_end[left], end[left]
        window, window_end = _bounds(calendar, start)
        parts.append((place, start, np.minimum(end, window_end), window))
    place, start, end, window = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    sort = np.argsort(place, kind="stable")
    return reading[place[sort]], start[sort], end[sort], window[sort]


def _span_ends(rows: Rows, messages: int) -> Ints:
    out = np.zeros(messages, np.int64)
    start, end = rows.device["span_start_us"], rows.device["span_end_us"]
    np.maximum.at(out, rows.message, np.where(end > start, end, 0))
    return out


def _out_of_order(rows: Rows, reading: Ints, start: Ints, end: Ints) -> frozenset[int]:
    """Messages in which a piece of a GPU begins before the one before it ends."""
    message, gpu = rows.message[reading], rows.gpu[reading]
    same = (message[1:] == message[:-1]) & (gpu[1:] == gpu[:-1])
    bad = np.flatnonzero(same & (start[1:] < end[:-1]))
    return frozenset(np.unique(message[1:][bad]).tolist())


def _lists(rows: Rows, strips: Strips) -> tuple[Ints, Columns]:
    """Where the list of processes of each reading begins in columns of pid and start, and these columns.

    Readings of a strip have one list; a reading without a strip brings its own.
    """
    listed = np.full(rows.count.size, -1, np.int64)
    pieces, strip = strips.pieces_of()
    listed[strips.piece["reading"][pieces]] = strips.strip["row_first"][strip]
    alone = np.flatnonzero(listed < 0)
    at, _ = expand(rows.first[alone], rows.count[alone])
    listed[alone] = strips.row["pid"].size + np.cumsum(rows.count[alone]) - rows.count[alone]
    names = ("pid", "start_ticks")
    return listed, {name: np.concatenate([strips.row[name], rows.process[name][at]]) for name in names}
