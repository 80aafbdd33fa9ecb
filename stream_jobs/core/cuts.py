"""Event time of a log: clocks, watermarks, sequence sets.

Laws: a watermark never goes back; a cut is the offset at which a time was first reached, whatever the interleaving of
topics (tests/property/test_meter.py against the oracle).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from .settings import MINUTE_US


@dataclass(slots=True)
class ClockIndex:
    """Where the clock of one topic partition first reached each multiple of `unit_us`; rising in both.

    Every time that is asked for is such a multiple (settings.unit_us), so days of a clock fit in some thousand entries.
    """

    unit_us: int = 1
    times_us: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    now_us: int | None = None
    """The newest clock, None before the first."""
    first: int = 0
    """Offset below which there is nothing of the clock's cluster."""

    def add(self, now_us: int, offset: int) -> bool:
        """Takes a clock record; False if it does not move the clock forward."""
        if self.now_us is not None and now_us <= self.now_us:
            return False
        self.now_us = now_us
        if not self.times_us or now_us // self.unit_us > self.times_us[-1] // self.unit_us:
            self.times_us.append(now_us)
            self.offsets.append(offset)
        return True

    def first_at(self, time_us: int) -> int | None:
        """First offset at which the clock had reached a multiple of the unit; None if it has not yet."""
        i = bisect_left(self.times_us, time_us)
        return self.offsets[i] if i < len(self.times_us) else None

    def read_from(self, time_us: int) -> int:
        """Where to begin reading for the minute of a time: where the cluster begins if its first clock is later.

        A minute's first clock is in the index whatever its unit, so rules that change do not change where it is.
        """
        i = bisect_left(self.times_us, time_us // MINUTE_US * MINUTE_US)
        if i == 0:
            return self.first
        return self.offsets[i] if i < len(self.times_us) else self.offsets[-1]

    def between_us(self, offset: int, later: int) -> int:
        """How much clock lies between two offsets, as far as the index tells; what it forgot counts as its oldest."""
        at = [max(0, bisect_right(self.offsets, o) - 1) for o in (offset, later)]
        return self.times_us[at[1]] - self.times_us[at[0]] if self.times_us else 0

    def forget_before(self, time_us: int) -> None:
        """Drops entries older than needed; keeps one below, so that `read_from` still knows there were some."""
        i = bisect_left(self.times_us, time_us // MINUTE_US * MINUTE_US) - 1
        if i > 0:
            del self.times_us[:i], self.offsets[:i]

    def below(self, offset: int, now_us: int | None) -> "ClockIndex":
        """The index as it was before the record at an offset, when the clock stood at `now_us`."""
        i = bisect_left(self.offsets, offset)
        return ClockIndex(self.unit_us, self.times_us[:i], self.offsets[:i], now_us, self.first)


@dataclass(slots=True)
class Gaps:
    """Times when the clock was silent; each counts whole for idleness."""

    ends_us: list[int] = field(default_factory=list)
    totals_us: list[int] = field(default_factory=list)

    def add(self, end_us: int, length_us: int) -> None:
        """A gap that ended at a clock record."""
        self.ends_us.append(end_us)
        self.totals_us.append((self.totals_us[-1] if self.totals_us else 0) + length_us)

    def since(self, time_us: int) -> int:
        """Sum of the gaps that ended after a time."""
        if not self.totals_us:
            return 0
        i = bisect_right(self.ends_us, time_us)
        return self.totals_us[-1] - (self.totals_us[i - 1] if i else 0)

    def forget_before(self, time_us: int) -> None:
        """Drops gaps that ended at or before a time."""
        i = bisect_right(self.ends_us, time_us)
        if i:
            base = self.totals_us[i - 1]
            self.ends_us = self.ends_us[i:]
            self.totals_us = [t - base for t in self.totals_us[i:]]


@dataclass(slots=True)
class SequenceSet:
    """The exact set of sequence numbers seen, as disjoint intervals; a high-water mark loses reordered ones."""

    intervals: list[list[int]] = field(default_factory=list)

    def __contains__(self, seq: int) -> bool:
        """Whether a number was seen."""
        i = bisect_right(self.intervals, seq, key=lambda interval: interval[0]) - 1
        return i >= 0 and seq <= self.intervals[i][1]

    def add(self, seq: int) -> bool:
        """Adds a number; False if it was there."""
        i = bisect_right(self.intervals, seq, key=lambda interval: interval[0]) - 1
        if i >= 0 and seq <= self.intervals[i][1]:
            return False
        grows_left = i >= 0 and self.intervals[i][1] == seq - 1
        grows_right = i + 1 < len(self.intervals) and self.intervals[i + 1][0] == seq + 1
        if grows_left and grows_right:
            self.intervals[i][1] = self.intervals.pop(i + 1)[1]
        elif grows_left:
            self.intervals[i][1] = seq
        elif grows_right:
            self.intervals[i + 1][0] = seq
        else:
            self.intervals.insert(i + 1, [seq, seq])
        return True
