"""Which windows a late fact touches."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.calendar import Change
from stream_jobs.core.late import LateFact
from stream_jobs.core.settings import MeterSettings

MINUTE = 60_000_000
SETTINGS = replace(
    MeterSettings(reach_us=30 * MINUTE),
    changes=(Change(40 * MINUTE, 15_000_000, 30_000_000), Change(50 * MINUTE, 2 * MINUTE, 0)),
)
TIMES = st.integers(0, 70 * 60).map(lambda second: second * 1_000_000 + 7)


@given(TIMES, TIMES, TIMES, TIMES, st.integers(0, 70))
def test_last_window_is_the_last_of_all(start: int, length: int, before: int, clock: int, low: int) -> None:
    """The last window is found without the others, whatever the rules of windows, the reach and where they begin."""
    fact = LateFact(0, start, start + length, before // (2 * MINUTE) * 2 * MINUTE, clock)
    low_us = SETTINGS.calendar.start_of(low * MINUTE)
    windows = fact.windows(low_us, SETTINGS)
    assert fact.last_window(low_us, SETTINGS) == (windows[-1] if windows else None)
