"""The numbers that change results, with units in their names."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from .calendar import Calendar, Change

MINUTE_US = 60_000_000
"""Revisions are made on whole minutes of the clock."""


@dataclass(frozen=True)
class MeterSettings:
    """What a meter is set to; equal settings and an equal log give equal rows."""

    window_us: int = 60_000_000
    lateness_us: int = 120_000_000
    idle_us: int = 300_000_000
    clock_gap_us: int = 15_000_000
    reach_back_us: int = 7_200_000_000
    """How far before a window its mappings and events are read (more than republication every hour)."""
    first_window_horizon_us: int = 1_800_000_000
    """A node's first window starts no earlier than this before the clock; older readings are late."""
    ahead_us: int = 60_000_000
    """An assertion or a clock record this far ahead of what it is judged by is not believed."""
    reading_ahead_us: int = 86_400_000_000
    """A reading this far ahead of its append time is refused."""
    reach_us: int = 518_400_000_000
    """How long after a window's end a late record may still revise it; less than the log's retention.
    A cluster without a clock record for this long (append time) is forgotten.
    A clock record that is older than this when it is appended is not believed. A node without a reading for this long
    of event time has no more rows."""
    simulated_time: bool = False
    """Append times say nothing about event times: do not judge clock records by them."""
    clock_key: bytes = b""
    checkpoint_us: int = 30_000_000
    """Clock time between two remembered (offset, carry) pairs."""
    changes: tuple[Change, ...] = ()
    """Later lengths and latenesses of windows; those above hold until the first of them."""

    @cached_property
    def calendar(self) -> Calendar:
        """Which windows there are."""
        return Calendar((Change(0, self.window_us, self.lateness_us), *self.changes))

    @property
    def unit_us(self) -> int:
        """What every time is a multiple of at which a clock's offset is asked for."""
        return gcd(self.calendar.unit_us, self.reach_back_us, MINUTE_US)

    @property
    def slack_us(self) -> int:
        """How far before a snapshot the readings may span that name it; a driver's ring of samples holds 14 s."""
        return min(15_000_000, self.lateness_us // 2)


@dataclass(frozen=True, slots=True)
class Source:
    """Which log a meter reads: the partition, and the id of its gpu-samples topic."""

    partition: int
    topic_id: str = ""
    partitions: int = 0
    """How many there are; 0: not known, every node is taken for one of this."""
