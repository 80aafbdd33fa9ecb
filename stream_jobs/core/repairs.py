"""The repair passes of a meter: one plan after the other, each read and made in steps that take a bounded time.

Owns which plan is at hand and what was gathered for it; a meter that is dropped between two steps loses nothing, since
a node counts as looked at only when its last look is made. Pure. Law: however the steps fall between the records that
come, and whatever crashes, the revisions are the oracle's (tests/property/test_revisions.py).
"""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from .close import close_windows
from .cluster import ClusterState
from .contents import LogRecord
from .gathered import Gathered, Part
from .repair import Look, Plan, plan_repairs, reasons, remake
from .revise import Row, revision, revision_table, rows_by_window
from .settings import MeterSettings, Source

LOOKS_A_STEP = 20
"""Looks that are made at once: what each costs is its minutes, GPUs and holders."""


class Repairs:
    """Repair passes over the clusters of one partition; `counts` are the meter's."""

    def __init__(
        self, settings: MeterSettings, source: Source, clusters: Mapping[str, ClusterState], counts: dict[str, int]
    ) -> None:
        self._settings, self._source, self._clusters, self._counts = settings, source, clusters, counts
        self._plans: deque[Plan] = deque()
        self._at_hand: Gathered | None = None
        self._made = 0

    def is_due(self) -> bool:
        """Whether there is a pass to be made, by reading what is `wanted` and, once that is nothing, `made`."""
        if self._at_hand is None:
            if not self._plans:
                self._plans.extend(plan for cluster in self._clusters.values() for plan in plan_repairs(cluster))
            if self._plans:
                plan = self._plans.popleft()
                self._at_hand = Gathered(plan, self._clusters[plan.cluster])
        return self._at_hand is not None

    def wanted(self) -> Part | None:
        """The part of the log that is to be read next, or some of it; None once all of a pass was read."""
        return self._pass().wanted()

    def take(self, records: Sequence[LogRecord], to: int) -> None:
        """Takes all that the log has of the wanted part up to an offset."""
        rest = self._pass().take(records, to)
        if rest is not None:
            self._plans.appendleft(rest)

    def made(self) -> pa.Table:
        """Rows of the next revisions of a pass that is read, of a few looks; may be none."""
        at_hand = self._pass()
        looks = at_hand.plan.looks[self._made : self._made + LOOKS_A_STEP]
        rows = self._revisions(at_hand, looks)
        self._made += len(looks)
        if self._made == len(at_hand.plan.looks):
            self._end(at_hand.plan)
        return revision_table(rows)

    def abandon(self) -> None:
        """Gives up the looks of a pass whose part of the log is gone."""
        plan = self._pass().plan
        self._counts["looks_abandoned"] += len(plan.looks)
        self._end(plan)

    def clear(self) -> None:
        """Drops what is at hand, which is planned anew."""
        self._plans.clear()
        self._at_hand, self._made = None, 0

    def gathered(self) -> tuple[int, int]:
        """Records that the pass at hand keeps, and the bytes of their payloads."""
        return (self._at_hand.records, self._at_hand.bytes) if self._at_hand else (0, 0)

    def _pass(self) -> Gathered:
        if self._at_hand is None:
            raise RuntimeError("no repair pass is at hand: is_due() was not asked, or said so")
        return self._at_hand

    def _revisions(self, at_hand: Gathered, looks: Sequence[Look]) -> list[Row]:
        cluster = self._clusters[at_hand.plan.cluster]
        windows = list(remake(looks, at_hand.contents(looks), cluster))
        made = rows_by_window(close_windows(windows, self._source)) if windows else {}
        rows = []
        for look in looks:
            minutes, start_us = made.get((look.node, look.window_start_us), {}), look.window_start_us
            for before_us, minute_us in pairwise((look.before_us, *look.minutes_us)):
                why = reasons(cluster.nodes[look.node].history, start_us, minute_us, self._settings)
                found = revision(minutes.get(before_us, {}), minutes.get(minute_us, {}), minute_us, why)
                self._counts["looks"] += 1
                self._counts["revisions"] += bool(found)
                rows += found
        self._counts["revision_rows"] += len(rows)
        return rows

    def _end(self, plan: Plan) -> None:
        for name, minute_us in plan.done:
            self._clusters[plan.cluster].nodes[name].history.looked_to_us = minute_us
        self._at_hand, self._made = None, 0
