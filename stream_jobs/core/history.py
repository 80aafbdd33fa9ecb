"""What a meter remembers of a node beyond its open windows, so that late records can revise closed ones.

All of it is as of now and goes into the carry whole: what was found late is not looked for again in a re-read. Tested
in tests/property/test_revisions.py.
"""

from dataclasses import dataclass, field

from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import NodeRecord, PodRecord

from .calendar import LONGEST_US
from .carry import HistoryCarry
from .cuts import ClockIndex
from .identity import FOREVER_US
from .late import LateFact
from .settings import MeterSettings

TOPICS = (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS)


@dataclass(slots=True)
class Quiet:
    """Windows from `start_us` on, before `end_us`, in whose time no reading listed the node's devices.

    The list that counts there is the one of the reading at `listing`, none where that is -1.
    """

    start_us: int
    end_us: int
    listing: int
    absent: bool


@dataclass(slots=True)
class NodeHistory:
    """A node's late facts, quiet windows, and the newest records of its pods and itself."""

    low_us: int = FOREVER_US
    """Start of the earliest window that some reading touches."""
    looked_to_us: int = 0
    """Revisions up to this minute are made."""
    facts: dict[str, list[LateFact]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    quiet: list[Quiet] = field(default_factory=list)
    pods: dict[str, tuple[int, PodRecord]] = field(default_factory=dict)
    record: tuple[int, NodeRecord] | None = None

    def add(self, topic: str, fact: LateFact) -> None:
        """Keeps a late fact."""
        self.facts[topic].append(fact)

    def pending(self, to_us: int) -> list[LateFact]:
        """Facts whose revisions up to a minute are not made yet."""
        return [f for facts in self.facts.values() for f in facts if self.looked_to_us < f.minute_us <= to_us]

    def note_quiet(self, start_us: int, end_us: int, listing: int, absent: bool) -> None:
        """Notes that a window was closed in which no reading listed devices."""
        last = self.quiet[-1] if self.quiet else None
        if last and (last.end_us, last.listing, last.absent) == (start_us, listing, absent):
            last.end_us = end_us
        else:
            self.quiet.append(Quiet(start_us, end_us, listing, absent))

    def quiet_at(self, window_start_us: int) -> Quiet | None:
        """What was noted of a window."""
        return next((q for q in self.quiet if q.start_us <= window_start_us < q.end_us), None)

    def take_pod(self, offset: int, pod: PodRecord, clock: ClockIndex, reach_us: int) -> PodRecord | None:
        """Takes a pod's record; returns the one that was newest before, if it came within the reach."""
        before = self.pods.get(pod.uid)
        if before is not None and clock.between_us(before[0], offset) > reach_us:
            before = None
        if before is None or (before[1].seen_us, before[0]) <= (pod.seen_us, offset):
            self.pods[pod.uid] = (offset, pod)
        return before[1] if before else None

    def take_record(self, offset: int, record: NodeRecord, clock: ClockIndex, reach_us: int) -> NodeRecord | None:
        """Takes the node's record; returns the one that was newest before, if it came within the reach."""
        before = self.record
        if before is not None and clock.between_us(before[0], offset) > reach_us:
            before = None
        if before is None or (before[1].seen_us, before[0]) <= (record.seen_us, offset):
            self.record = (offset, record)
        return before[1] if before else None

    def is_empty(self, position: int, clock: ClockIndex, reach_us: int) -> bool:
        """Whether nothing of it matters to what comes from a position of pod-events on."""
        told = [offset for offset, _ in self.pods.values()] + ([self.record[0]] if self.record else [])
        newest = max(told, default=None)
        is_old = newest is None or clock.between_us(newest, position) > reach_us
        return is_old and not self.quiet and not any(self.facts.values())

    def forget(self, now_us: int, events_floor: int, events: ClockIndex, settings: MeterSettings) -> None:
        """Drops what is beyond the reach, and deleted pods that no window can see; `events` is pod-events' clock."""
        oldest_us = now_us - settings.reach_us - LONGEST_US
        for topic, facts in self.facts.items():
            if facts and any(f.end_us < oldest_us for f in facts):
                self.facts[topic] = [
                    f for f in facts if f.end_us >= oldest_us or self.looked_to_us < f.minute_us < FOREVER_US
                ]
        while self.quiet and self.quiet[0].end_us < oldest_us:
            del self.quiet[0]
        gone = [
            uid
            for uid, (offset, pod) in self.pods.items()
            if offset < events_floor
            and (pod.deleted_us is not None or events.between_us(offset, events_floor) > settings.reach_us)
        ]
        for uid in gone:
            del self.pods[uid]

    def carry(self, node: str, events_floor: int) -> HistoryCarry:
        """A copy; of the pods those whose newest record a re-read would not meet."""
        facts = [
            [n, f.offset, f.start_us, f.end_us, f.before_us, f.clock_us]
            for n, topic in enumerate(TOPICS)
            for f in self.facts[topic]
        ]
        return HistoryCarry(
            node=node,
            low_us=self.low_us,
            looked_to_us=self.looked_to_us,
            facts=facts,
            quiet=[[q.start_us, q.end_us, q.listing, int(q.absent)] for q in self.quiet],
            pods=[known for known in self.pods.values() if known[0] < events_floor],
            record=self.record if self.record and self.record[0] < events_floor else None,
        )


def history_of(carry: HistoryCarry) -> NodeHistory:
    """The history of a carry."""
    history = NodeHistory(carry.low_us, carry.looked_to_us)
    for topic, *numbers in carry.facts:
        history.add(TOPICS[topic], LateFact(*numbers))
    history.quiet = [Quiet(start, end, listing, bool(absent)) for start, end, listing, absent in carry.quiet]
    history.pods = {known[1].uid: known for known in carry.pods}
    history.record = carry.record
    return history
