"""What came of a cluster's clock and readings since a meter was made; no row depends on it.

The worker judges by it whether the watcher is away (stream_jobs/stand_in.py).
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Heard:
    """Counts of one cluster's records."""

    clocks: int = 0
    """Clock records of the watcher, on any topic."""
    overrides: int = 0
    """Clock records that workers wrote in its place, on any topic."""
    readings: int = 0
    is_override: bool = False
    """Whether the record read last was an override."""

    def note_clock(self, override: bool) -> None:
        """Counts a clock record."""
        self.is_override = override
        if override:
            self.overrides += 1
        else:
            self.clocks += 1
