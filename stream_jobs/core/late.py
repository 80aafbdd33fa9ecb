"""Late facts: records at or above the first cut of a window that they touch, and when they count.

A late fact is visible to the windows it touches from its minute T* on: the first whole minute that its topic's clock
reached above it. Other windows never see it, so a revision differs from what was before by late facts alone. Pure;
tested against the oracle in tests/property/test_revisions.py.
"""

from dataclasses import dataclass

from schemas.pods import ContainerRecord, NodeRecord, PodRecord

from .identity import FOREVER_US
from .settings import MINUTE_US, MeterSettings
from .window import REPLICAS_LABEL


@dataclass(frozen=True, slots=True, order=True)
class LateFact:
    """A record at `offset` that touches [start, end) of event time, in windows that start before `before_us`.

    `clock_us` is the newest clock below it in its topic.
    """

    offset: int
    start_us: int
    end_us: int
    before_us: int
    clock_us: int

    @property
    def minute_us(self) -> int:
        """T*: the first whole minute of the clock that shows it."""
        return (self.clock_us // MINUTE_US + 1) * MINUTE_US

    def touches(self, window_start_us: int, settings: MeterSettings) -> bool:
        """Whether it belongs to a window that was cut before it came, and is within the reach."""
        end_us = settings.calendar.end_of(window_start_us)
        return (
            window_start_us < min(self.before_us, self.end_us)
            and end_us > self.start_us
            and self.minute_us - end_us <= settings.reach_us
        )

    def windows(self, low_us: int, settings: MeterSettings) -> list[int]:
        """Starts of the windows at or after `low_us` that it touches."""
        calendar, reach_us = settings.calendar, self.minute_us - settings.reach_us
        first = max(calendar.start_of(max(self.start_us, reach_us - 1)), low_us)
        starts = calendar.starts(first, min(self.before_us, self.end_us))
        return [start_us for start_us in starts if calendar.end_of(start_us) >= reach_us]

    def last_window(self, low_us: int, settings: MeterSettings) -> int | None:
        """The last of `windows`, at once: a pod's record may touch days of them."""
        calendar, edge_us = settings.calendar, min(self.before_us, self.end_us)
        first = max(calendar.start_of(max(self.start_us, self.minute_us - settings.reach_us - 1)), low_us)
        return calendar.start_of(edge_us - 1) if edge_us > first else None


def pod_changes_from(old: PodRecord | None, new: PodRecord) -> int:
    """Since when a window may look different with a pod's new record than with the one before it; else never.

    A pod that waits for its containers changes nothing: its grants go by name, and it runs nothing.
    """
    if not any(container.runs for container in new.containers) and new.deleted_us is None:
        return FOREVER_US
    if old is not None and new.seen_us < old.seen_us:
        return FOREVER_US
    if old is None or _identity(old) != _identity(new) or _requests_differ(old, new):
        return min([new.created_us, *(run.started_us for c in new.containers for run in c.runs)])
    changes = [_first_difference(old.deleted_us, new.deleted_us)]
    before, after = _runs(old.containers), _runs(new.containers)
    for key in before.keys() | after.keys():
        (start, end), (other_start, other_end) = before.get(key, (None, None)), after.get(key, (None, None))
        changes += [_first_difference(start, other_start), _first_difference(end, other_end)]
    return min(changes)


def node_changes_from(old: NodeRecord | None, new: NodeRecord) -> int:
    """As `pod_changes_from`, of a node: its sharing by label, and its deletion."""
    if old is None:
        return new.created_us
    if new.seen_us < old.seen_us:
        return FOREVER_US
    shared = old.labels.get(REPLICAS_LABEL) == new.labels.get(REPLICAS_LABEL)
    return min(_first_difference(old.deleted_us, new.deleted_us), FOREVER_US if shared else new.seen_us)


def _identity(pod: PodRecord) -> object:
    return pod.namespace, pod.name, pod.config_hash, pod.owners, pod.created_us


def _requests_differ(old: PodRecord, new: PodRecord) -> bool:
    before = {c.name: c.requests for c in old.containers}
    return any(c.requests != before.get(c.name, c.requests) for c in new.containers)


def _runs(containers: list[ContainerRecord]) -> dict[tuple[str, str], tuple[int, int | None]]:
    return {(c.name, run.container_id): (run.started_us, run.finished_us) for c in containers for run in c.runs}


def _first_difference(one: int | None, other: int | None) -> int:
    if one == other:
        return FOREVER_US
    return min(FOREVER_US if t is None else t for t in (one, other))
