"""Time of the node."""

import threading
from itertools import pairwise

import pytest

from collector.clock import Deadline, StepDetector, SystemClock


class Time:
    """A wall clock and a boot-time clock that the test sets."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000_000_000
        self.boot = 5_000_000

    def clock(self) -> SystemClock:
        """A clock on these."""
        return SystemClock(lambda: self.wall, lambda: self.boot)


def test_event_time_is_monotonic_inside_a_segment() -> None:
    """Small corrections of the wall clock, also backwards, do not move event time; only boot time does."""
    time = Time()
    clock = time.clock()
    seen = []
    for drift in (0, -900_000, 400_000, -1_000_000, 1_000_000):
        time.boot += 1_000_000
        time.wall = 1_800_000_000_000_000 + (time.boot - 5_000_000) + drift
        seen.append(clock.event_us())
    assert [later - earlier for earlier, later in pairwise(seen)] == [1_000_000] * 4


@pytest.mark.parametrize("step", [3_600_000_000, -3_600_000_000, 1_000_001, -1_000_001])
def test_event_time_follows_a_step_of_the_wall_clock(step: int) -> None:
    """A wall clock set by more than a second starts a new segment, told once."""
    time = Time()
    clock = time.clock()
    detector = StepDetector(clock)
    assert not detector.stepped()
    time.wall += step
    assert clock.event_us() == time.wall
    assert detector.stepped()
    assert not detector.stepped()
    assert detector.offset_us == time.wall - time.boot


def test_wait_ends_at_the_deadline_or_when_stopped() -> None:
    """A wait says True when its time has come and False, at once and for ever, after stop."""
    clock = SystemClock()
    assert clock.wait_until_us(clock.monotonic_us() + 1000)
    threading.Timer(0.05, clock.stop).start()
    assert not clock.wait_until_us(clock.monotonic_us() + 60_000_000)
    assert not clock.wait_until_us(0)


def test_deadline_runs_out() -> None:
    """What is left of a deadline never is negative."""
    assert Deadline(0).left_s == 0
    assert 50 < Deadline(60).left_s <= 60
