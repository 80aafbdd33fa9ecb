"""What a lane has done since it was opened, counted for the figures; decides nothing.

Knows refused records and tables of rows. Tested in tests/unit/stream_jobs/test_figures.py.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from schemas.ids import VIOLATION

from .core.meter import Refused


@dataclass(slots=True)
class LaneCounts:
    """Counts of one lane; times in microseconds."""

    skipped: int = 0
    """Messages that came again and were passed over."""
    reread: int = 0
    """Messages below where the partition was when its progress was saved."""
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dead letters by topic and reason."""
    charged_us: Counter[str] = field(default_factory=Counter)
    """Charged time of all closed windows by kind of holder."""
    newest_charged_us: dict[str, int] = field(default_factory=dict)
    """The same of the windows that were closed last."""
    append_us: dict[str, int] = field(default_factory=dict)
    """Append time of the last message of each topic."""
    gone: list[str] = field(default_factory=list)
    """Why repair passes were given up, since this was last told."""

    def note_refused(self, refused: Sequence[Refused]) -> None:
        """Counts dead letters."""
        self.letters.update((each.topic, each.reason) for each in refused)

    def note_closed(self, table: pa.Table) -> None:
        """Counts the charged time of a table of usage rows."""
        sums = table.select(["holder_kind", "charged_us"]).group_by("holder_kind").aggregate([("charged_us", "sum")])
        pairs = zip(sums["holder_kind"].to_pylist(), sums["charged_us_sum"].to_pylist(), strict=True)
        self.newest_charged_us = {kind: int(total) for kind, total in pairs if kind != VIOLATION}
        self.charged_us.update(self.newest_charged_us)

    def newest_share(self, kind: str) -> float | None:
        """Share of a kind of holder in the time of the windows that were closed last; None before the first."""
        total = sum(self.newest_charged_us.values())
        return self.newest_charged_us.get(kind, 0) / total if total else None
