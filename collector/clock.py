"""Time on the node: event time, boot time and waiting; the only module of the agent that asks the system for time.

Event time = wall clock at the start of a boot segment + boot-time clock since, so it never jumps by itself. A wall
clock that was set by more than a second starts a new segment; whoever compares `event_us - monotonic_us` sees it.
Law: inside a segment event time is exactly as monotonic as the boot-time clock (tests/unit/collector/test_clock.py).
"""

import os
import select
import time
from collections.abc import Callable
from typing import Protocol

STEP_US = 1_000_000


class Clock(Protocol):
    """What agent and watcher know of time; the simulation gives them its own."""

    def event_us(self) -> int:
        """Event time now, microseconds since 1970."""

    def monotonic_us(self) -> int:
        """Boot-time clock now, microseconds."""

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Wait until the boot-time clock shows `monotonic_us`: True reached, False stop now."""


def _wall_us() -> int:
    return time.time_ns() // 1000


def _boot_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class SystemClock:
    """The node's real clock; `stop` may be called from a signal handler."""

    def __init__(self, wall_us: Callable[[], int] = _wall_us, boot_us: Callable[[], int] = _boot_us) -> None:
        self._wall_us = wall_us
        self._boot_us = boot_us
        self._offset_us = wall_us() - boot_us()
        self._stopped = False
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._wake = select.poll()
        self._wake.register(self._wake_read, select.POLLIN)

    def event_us(self) -> int:
        """Event time now; begins a new segment where the wall clock was set by more than a second."""
        now = self._boot_us()
        offset = self._wall_us() - now
        if abs(offset - self._offset_us) > STEP_US:
            self._offset_us = offset
        return now + self._offset_us

    def monotonic_us(self) -> int:
        """Boot-time clock now; it goes on while the machine sleeps."""
        return self._boot_us()

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Wait until then: True reached, False because `stop` was called."""
        while not self._stopped:
            left = monotonic_us - self._boot_us()
            if left <= 0:
                return True
            self._wake.poll(min(left, 60_000_000) / 1e3)
        return False

    def stop(self) -> None:
        """End the present wait and every later one; safe in a signal handler."""
        self._stopped = True
        os.write(self._wake_write, b"x")


class Deadline:
    """A span of real time that is left, for waits on what is outside."""

    def __init__(self, timeout_s: float) -> None:
        self._end_s = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._end_s - time.monotonic())


class StepDetector:
    """Tells when event time left its segment: the distance of event time and boot-time clock has changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_us = clock.event_us() - clock.monotonic_us()

    @property
    def offset_us(self) -> int:
        """Event time minus boot-time clock in this segment."""
        return self._offset_us

    def stepped(self) -> bool:
        """True once for each new segment."""
        offset = self._clock.event_us() - self._clock.monotonic_us()
        if abs(offset - self._offset_us) <= STEP_US // 2:
            return False
        self._offset_us = offset
        return True
