"""Which windows there are: half-open, on multiples of their length, and when each is due; changeable at run time.

A change takes effect at a window start of both lengths, so a time has one window whatever is changed later. Pure.
Law: windows neither overlap nor leave a hole, and none is due before an earlier one (tests/property/test_calendar.py).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

LEAD_US = 600_000_000
"""A change takes effect no earlier than this after it was told, so that every worker has read it by then."""
SHORTEST_US, LONGEST_US, LONGEST_LATENESS_US = 15_000_000, 3_600_000_000, 86_400_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """From `effective_us` on, windows of another length or with another lateness."""

    effective_us: int
    window_us: int
    lateness_us: int


@dataclass(frozen=True)
class Calendar:
    """The window rules, oldest first; the first holds from ever."""

    rules: tuple[Change, ...]

    @cached_property
    def _begins_us(self) -> list[int]:
        return [rule.effective_us for rule in self.rules[1:]]

    @cached_property
    def _floors_us(self) -> list[int]:
        """Before which no window of a rule is due: when the last one of the rule before is."""
        floors = [-(1 << 62)]
        for before, rule in zip(self.rules, self.rules[1:], strict=False):
            floors.append(max(floors[-1], rule.effective_us + before.lateness_us))
        return floors

    @cached_property
    def unit_us(self) -> int:
        """What every start and due time is a multiple of."""
        return gcd(*(n for rule in self.rules for n in (rule.window_us, rule.lateness_us)))

    def start_of(self, time_us: int) -> int:
        """Start of the window that holds a time."""
        size = self.rules[self._rule_at(time_us)].window_us
        return time_us // size * size

    def end_of(self, start_us: int) -> int:
        """End of the window that starts at a time."""
        return start_us + self.rules[self._rule_at(start_us)].window_us

    def due_us(self, start_us: int) -> int:
        """When the window that starts at a time is due: its end and lateness, and not before the windows before it."""
        at = self._rule_at(start_us)
        return max(start_us + self.rules[at].window_us + self.rules[at].lateness_us, self._floors_us[at])

    def due_before(self, time_us: int) -> int:
        """Windows that start before this are due at a time."""
        at = bisect_right(self._floors_us, time_us) - 1
        rule = self.rules[at]
        start_us = (time_us - rule.lateness_us) // rule.window_us * rule.window_us
        if at:
            start_us = max(start_us, rule.effective_us)
        return min([start_us, *self._begins_us[at : at + 1]])

    def starts(self, first_us: int, last_us: int) -> Iterator[int]:
        """Starts of the windows from the one that starts at `first_us` on, before `last_us`."""
        while first_us < last_us:
            yield first_us
            first_us = self.end_of(first_us)

    def _rule_at(self, time_us: int) -> int:
        return bisect_right(self._begins_us, time_us) if self._begins_us else 0


def calendar_of(first: Change, told: Iterable[tuple[int, Change]]) -> tuple[Calendar, list[str]]:
    """The calendar of the changes that were told at some append times, in log order, and why others do not count."""
    rules, refused = [first], []
    for append_us, change in told:
        fault = fault_of(rules[-1], change, append_us)
        if fault:
            refused.append(fault)
        else:
            rules.append(change)
    return Calendar(tuple(rules)), refused


def fault_of(last: Change, change: Change, told_us: int) -> str | None:
    """Why a change that is told at a time does not count; None where it does."""
    if not SHORTEST_US <= change.window_us <= LONGEST_US or change.window_us % 1_000_000:
        return f"window of {change.window_us} us: whole seconds from 15 to 3600 are possible"
    if not 0 <= change.lateness_us <= LONGEST_LATENESS_US or change.lateness_us % 1_000_000:
        return f"lateness of {change.lateness_us} us: whole seconds up to 86400 are possible"
    if change.effective_us < told_us + LEAD_US:
        return (
            f"effective at {change.effective_us} us, told at {told_us} us: it must be told at least "
            f"{LEAD_US // 1_000_000} s before, so that every worker knows it by then"
        )
    if change.effective_us <= last.effective_us:
        return f"effective at {change.effective_us} us, not after the change before it ({last.effective_us} us)"
    for size_us in (last.window_us, change.window_us):
        if change.effective_us % size_us:
            return f"effective at {change.effective_us} us, which is no start of a window of {size_us // 1_000_000} s"
    return None
