"""Lives of a node: from its first message in gpu-samples until it was silent for so long that it has no more rows.

A new life of the same name remembers nothing of the one before. Where a life ends is a function of gpu-samples alone,
so every reader of the log finds it at the same record, and it does not matter when what is left of a node is dropped.
Law: a log in which later lives have names of their own gives the same rows (tests/property/test_lives.py).
"""

from collections.abc import Sequence

import msgspec


class Life(msgspec.Struct, array_like=True):
    """One life of a node."""

    boots: list[str] = []
    """In the order of the log."""
    first_us: int | None = None
    """Start of its first window, None before a reading that lists devices; earlier ones have revisions only."""
    first_offset: int = -1
    """Of the reading that opened its first window; gaps before that touch nothing."""
    over_offset: int | None = None
    """Of the clock record that ended it."""
    over_us: int | None = None
    """From where on windows are of the next life."""

    def has(self, offset: int) -> bool:
        """Whether a gap at an offset counts for it."""
        return offset > self.first_offset and (self.over_offset is None or offset < self.over_offset)


def life_at(lives: Sequence[Life], window_start_us: int) -> Life:
    """The life that a window belongs to, also one between two lives or before the first: whose windows come next."""
    for life in lives:
        if life.first_us is not None and (life.over_us is None or window_start_us < life.over_us):
            return life
    return Life()


def opens_after(lives: Sequence[Life], time_us: int) -> int:
    """Where the windows go on that end at a time with the life they are of: at the next life, else there."""
    return min(
        (life.first_us for life in lives if life.first_us is not None and life.first_us > time_us), default=time_us
    )
