"""Remembered (offset, carry) pairs of a meter: a bounded number, whatever pins progress and for how long.

An older carry only means more to read again; the rows are the same (tests/property/test_crash.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .carry import Checkpoint, ClusterCarry, checkpoint

MOST = 32


@dataclass(slots=True)
class Checkpoints:
    """Checkpoints by offset, at most `MOST`; the newest at or below what is needed is always among them."""

    kept: list[Checkpoint] = field(default_factory=list)

    def add(self, samples_offset: int, clusters: Sequence[ClusterCarry], needed: Callable[[], int]) -> None:
        """Takes the carry of now; of too many, every second one goes between the one to begin from and this."""
        self.kept.append(checkpoint(samples_offset, clusters))
        if len(self.kept) > MOST:
            self.newest(needed())
        if len(self.kept) > MOST:
            self.kept = [self.kept[0], *self.kept[2:-1:2], self.kept[-1]]

    def newest(self, needed: int) -> Checkpoint | None:
        """The newest at or below an offset, None without one; what is needed only rises, so older ones are dropped."""
        usable = sum(known.samples_offset <= needed for known in self.kept)
        if not usable:
            return None
        del self.kept[: usable - 1]
        return self.kept[0]
