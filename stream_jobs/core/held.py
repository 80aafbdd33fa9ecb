"""Readings held until their windows close: reduced to strips, and beside them what they were reduced from, narrowed.

Strips are what a window needs of a reading that shares no time with another. Where two do share some, e.g. of two
collectors, the columns are made again, so that the result is the same either way (tests/property/test_held.py).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from schemas.ids import FREE_SLICES
from stream_jobs.decode import Reading

from .calendar import Calendar
from .divide import Ints
from .narrow import Narrow
from .strips import Columns


class DeviceFacts(NamedTuple):
    """What a device list says of a GPU, MIG instance or the free slices of a GPU (`schemas/samples.py`)."""

    gpu_uuid: str
    gpu_model: str
    parent_uuid: str = ""
    slices: int = 1
    slices_total: int = 1

    @property
    def is_free(self) -> bool:
        """Whether it is what of a GPU is in no instance."""
        return self.gpu_uuid.endswith(FREE_SLICES)


Listing = tuple[int, list[DeviceFacts]]
"""When devices were read, and which there were."""


@dataclass(frozen=True, slots=True)
class HeldBlock:
    """Messages that were decoded and reduced together; every column is narrowed, `*_first` say where a message's lie.

    strip, row, piece, fact: as reduce.py and facts.py make them; `gpu` is a place in the message's sorted devices.
    device: DEVICE_FIELDS, `gpu`, `rows` (of processes) and `first_row`, `list` (where its pid and start lie).
    """

    calendar: Calendar
    """Of the windows that pieces were cut for."""
    devices: list[list[DeviceFacts]]
    strip: Ints
    """A row per column of STRIP, `fact` one per column of FACTS."""
    row: dict[str, Narrow]
    piece: dict[str, Narrow]
    fact: Ints
    device: dict[str, Narrow]
    process: dict[str, Narrow]
    listed: dict[str, Narrow]
    """pid and start_ticks of lists of processes."""
    strip_first: Ints
    fact_first: Ints
    device_first: Ints
    span_end_us: Ints
    """Where the newest span of each message ends; 0 where it has none."""
    listings: dict[int, list[Listing]]
    """Of messages with several readings of a GPU in MIG mode, the devices of each reading."""
    odd: frozenset[int]
    """Messages in which readings of a GPU share time or come out of order: only their columns count."""
    share_bytes: int = field(init=False)
    """Bytes of all columns, by message."""

    def __post_init__(self) -> None:
        """Counts once what is asked for again and again."""
        object.__setattr__(self, "share_bytes", self._size_bytes() // max(1, len(self.devices)))

    def _size_bytes(self) -> int:
        parts = (self.row, self.piece, self.device, self.process, self.listed)
        narrowed = sum(column.size_bytes for part in parts for column in part.values())
        return int(narrowed + self.strip.nbytes + self.fact.nbytes)

    def columns(self, at: int) -> tuple[Columns, Columns]:
        """Device and process columns of a message, as far as the meter needs them."""
        start, end = int(self.device_first[at]), int(self.device_first[at + 1])
        device: Columns = {name: column.part(start, end) for name, column in self.device.items()}
        names = self.devices[at]
        for name in DeviceFacts._fields:
            words = np.array([*(getattr(d, name) for d in names), None], object)[:-1]
            device[name] = words[device["gpu"]]
        count, first, listed = device["rows"], device["first_row"], device["list"]
        row = np.repeat(np.arange(count.size), count)
        within = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
        process: Columns = {name: column.take(first[row] + within) for name, column in self.process.items()}
        process |= {name: column.take(listed[row] + within) for name, column in self.listed.items()}
        process["device_row"] = row
        return device, process


@dataclass(slots=True)
class HeldReading:
    """A message in a block, as a reading: its sender's identity and place in the log."""

    boot_id: str
    epoch_us: int
    seq: int
    offset: int
    block: HeldBlock
    at: int
    flags: int
    """Of all its readings, besides their own: what its place in the log says."""

    @property
    def size_bytes(self) -> int:
        """Its share of its block."""
        return self.block.share_bytes

    @property
    def device(self) -> Columns:
        """Its device columns, made again."""
        return columns_of(self)[0]

    @property
    def process(self) -> Columns:
        """Its process columns, made again."""
        return self.block.columns(self.at)[1]

    @property
    def devices(self) -> list[DeviceFacts]:
        """Its devices, sorted."""
        return self.block.devices[self.at]


AnyReading = Reading | HeldReading


def devices_of(reading: AnyReading) -> list[DeviceFacts]:
    """Devices that a reading lists, sorted."""
    if isinstance(reading, HeldReading):
        return reading.devices
    return _facts_of(reading.device)


def listings_in(reading: AnyReading) -> list[Listing]:
    """The devices that a reading lists, as `listings_of` its rows."""
    if not isinstance(reading, HeldReading):
        return listings_of(reading.device)
    block, at = reading.block, reading.at
    read_us = block.device["read_us"].part(int(block.device_first[at]), int(block.device_first[at + 1]))
    return block.listings.get(at) or [(int(read_us.max()), reading.devices)]


def listings_of(device: Columns) -> list[Listing]:
    """The devices that decoded device rows list: at each reading where a GPU is in MIG mode, else once, at the last."""
    read_us = device["read_us"]
    if not (device["slices_total"] > 1).any():
        return [(int(read_us.max()), _facts_of(device))]
    times = np.unique(read_us).tolist()
    return [(time_us, _facts_of({n: device[n][read_us == time_us] for n in DeviceFacts._fields})) for time_us in times]


def _facts_of(device: Columns) -> list[DeviceFacts]:
    told = {row[0]: DeviceFacts(*row) for row in zip(*(device[n].tolist() for n in DeviceFacts._fields), strict=True)}
    return [told[uuid] for uuid in sorted(told)]


def together(listed: list[DeviceFacts], of_readings: list[list[DeviceFacts]]) -> list[DeviceFacts]:
    """Devices of a list and of readings, sorted; of one GPU the first told, or with a size. Maybe the list itself."""
    if all(devices is listed for devices in of_readings):
        return listed
    first = {device.gpu_uuid: device for device in listed}
    for devices in of_readings:
        for device in devices:
            known = first.setdefault(device.gpu_uuid, device)
            if known.slices_total < device.slices_total:
                first[device.gpu_uuid] = device
    return [first[uuid] for uuid in sorted(first)]


def columns_of(reading: AnyReading) -> tuple[Columns, Columns]:
    """Device and process columns of a reading."""
    if not isinstance(reading, HeldReading):
        return reading.device, reading.process
    device, process = reading.block.columns(reading.at)
    device["flags"] |= reading.flags
    return device, process


def span_end_of(reading: AnyReading) -> int:
    """Where its newest span ends, 0 where it has none."""
    if isinstance(reading, HeldReading):
        return int(reading.block.span_end_us[reading.at])
    start, end = reading.device["span_start_us"], reading.device["span_end_us"]
    return int(end[end > start].max(initial=0))


class Arrived(NamedTuple):
    """A message of a block on its way in: the time it touches, its newest time, and the sum of its spans."""

    block: HeldBlock
    at: int
    rows: int
    start_us: int
    end_us: int
    read_us: int
    newest_us: int
    span_us: int
    flags: int = 0

    @property
    def devices(self) -> list[DeviceFacts]:
        """Its devices, sorted."""
        return self.block.devices[self.at]

    @property
    def listings(self) -> list[Listing]:
        """Its devices at each time at which they may have been others."""
        return self.block.listings.get(self.at) or [(self.read_us, self.devices)]

    def share_devices(self, devices: list[DeviceFacts]) -> None:
        """Takes an equal list of its devices in the place of its own."""
        self.block.devices[self.at] = devices

    def held(self, boot_id: str, epoch_us: int, seq: int, offset: int) -> HeldReading:
        """The reading that it is, of a sender and at a place in the log."""
        return HeldReading(boot_id, epoch_us, seq, offset, self.block, self.at, self.flags)
