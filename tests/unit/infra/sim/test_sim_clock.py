"""Clocks of simulated processes."""

import io
import threading

import pytest

from infra.sim.clock import LiveClock, LockstepClock, PipeLink


class Script:
    """A coordinator with its words ready, which notes what it hears."""

    def __init__(self, *horizons: int | None) -> None:
        self.horizons = list(horizons)
        self.heard: list[object] = []

    def reached(self, now_us: int) -> None:
        """Notes the time."""
        self.heard.append(now_us)

    def horizon_us(self) -> int | None:
        """The next word."""
        return self.horizons.pop(0)


def test_lockstep_clock_moves_only_when_told() -> None:
    """Waiting past the horizon flushes, reports the horizon and stays there until it moves."""
    link = Script(150, 200, None)
    clock = LockstepClock(100, 40, link, flush=lambda: link.heard.append("flushed"))
    assert clock.wait_until_us(60) and clock.event_us() == 100 and link.heard == []
    assert clock.wait_until_us(140)
    assert (clock.event_us(), clock.monotonic_us()) == (180, 140)
    assert link.heard == ["flushed", 100, "flushed", 150]
    assert not clock.wait_until_us(161)
    assert clock.event_us() == 200


def test_lockstep_clock_keeps_appointments_at_their_own_time() -> None:
    """An appointment happens at its multiple of the period, after the world was brought there, in order."""
    seen: list[tuple[str, int, int]] = []
    clock = LockstepClock(100, 0, Script(200, None), on_advance=lambda now: seen.append(("world", now, now)))
    clock.every(30, lambda now: seen.append(("thirty", now, clock.event_us())))
    assert clock.wait_until_us(155)
    assert seen[1:] == [
        ("world", 100, 100), ("world", 120, 120), ("thirty", 120, 120),
        ("world", 150, 150), ("thirty", 150, 150), ("world", 155, 155),
    ]  # fmt: skip


def test_pipe_link_reads_commands_and_refuses_others() -> None:
    """Commands are advance_to_us and finish; a closed pipe is finish; anything else is an error."""
    out = io.StringIO()
    link = PipeLink(io.StringIO('{"advance_to_us": 5}\n{"finish": true}\n'), out)
    link.reached(3)
    assert out.getvalue() == '{"reached_us": 3}\n'
    assert [link.horizon_us(), link.horizon_us(), link.horizon_us()] == [5, None, None]
    with pytest.raises(ValueError, match="advance_to_us or finish"):
        PipeLink(io.StringIO('{"go": 1}\n'), out).horizon_us()


def test_live_clock_waits_and_stops() -> None:
    """A deadline is reached in real time; a stop ends the wait at once with False."""
    stop = threading.Event()
    clock = LiveClock(0, stop)
    begin = clock.monotonic_us()
    assert clock.wait_until_us(begin + 20_000)
    assert clock.monotonic_us() >= begin + 20_000
    stop.set()
    assert not clock.wait_until_us(begin + 60_000_000)
