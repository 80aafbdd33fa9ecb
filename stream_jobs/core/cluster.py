"""What a meter knows of one cluster in its partition: the clocks of three topics, their gaps, and its nodes.

Clock, cuts and idleness are judged per cluster: a node two hours ahead does not silence its neighbours. What comes for
a window after its cut becomes a late fact of its node (late.py).
"""

from dataclasses import dataclass, field

from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import NodeRecord, PodRecord
from schemas.snapshots import Snapshot

from .cuts import ClockIndex, Gaps
from .due import DueNodes
from .forget import Forgotten
from .fresh import Fresh
from .held import Arrived
from .history import TOPICS
from .identity import FOREVER_US
from .late import LateFact, node_changes_from, pod_changes_from
from .node import Buffered, NodeState
from .settings import MINUTE_US, MeterSettings
from .sharing import shared_pod
from .window import NodeWindow, SeenGap

Positions = dict[str, int]


@dataclass(slots=True)
class ClusterState:
    """Clocks, gaps and nodes of one cluster; `closed_to` and `gone` are what was closed before a restart.

    `position` is where each topic is read to; of records below `known`, it is known already what is late.
    """

    name: str
    settings: MeterSettings
    closed_to: dict[tuple[str, str], int]
    gone: set[tuple[str, str]]
    position: Positions
    known: Positions
    first: Positions
    """Offset of its first record in each topic, or one below; where it has none yet, where the topic is read to."""
    clocks: dict[str, ClockIndex] = field(init=False)
    gaps: Gaps = field(default_factory=Gaps)
    heard_us: int = 0
    """Append time of its newest clock record, or of its first record while it has none."""
    nodes: dict[str, NodeState] = field(default_factory=dict)
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By window start: first offset, and the one after the last, of what touches it in gpu-samples and is not late."""
    fresh: Fresh = field(default_factory=Fresh)
    late_nodes: set[str] = field(default_factory=set)
    """Nodes with late facts that may not be looked at yet."""
    waiting_nodes: set[str] = field(default_factory=set)
    """Those of them that wait for the clock alone, which is asked once a minute."""
    planned_last: str = ""
    """The node that revisions were looked for last."""
    planned_us: int = 0
    """The newest minute for which revisions were looked for."""
    due: DueNodes = field(default_factory=DueNodes)
    forgotten: Forgotten = field(default_factory=Forgotten)

    def __post_init__(self) -> None:
        self.clocks = {topic: ClockIndex(self.settings.unit_us, first=self.first[topic]) for topic in TOPICS}

    def node(self, name: str) -> NodeState:
        """State of a node, made at its first record."""
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = NodeState(self.name, name, gone=(self.name, name) in self.gone)
        return known

    def take_clock(self, topic: str, now_us: int, offset: int, override: bool = False) -> bool:
        """Takes a clock record; on gpu-samples it may end the wait for silent nodes. False if it moved nothing.

        What a worker wrote in the watcher's place (an override) is a gap for idleness: nobody saw who was silent.
        """
        before = self.clocks[topic].now_us
        if not self.clocks[topic].add(now_us, offset) or topic != GPU_SAMPLES:
            return False
        if before is None:
            for node in self.nodes.values():
                node.clip(now_us, self.settings, self.closed_to.get((self.name, node.node), 0))
                if node.started:
                    self._judge_early(node, now_us)
                node.note_heard(now_us)
        elif override or now_us - before > self.settings.clock_gap_us:
            self.gaps.add(now_us, now_us - before)
        for node in self.nodes.values():
            since = node.silent_since_us
            if node.started and now_us - since >= self.settings.idle_us + self.gaps.since(since):
                node.advance(now_us, offset, self.settings)
                self.due.note(node)
            node.end_if_over(now_us, offset, self.settings.reach_us)
        return True

    def take_reading(self, headers: Headers, offset: int, arrived: Arrived) -> str:
        """Takes a reading; says what became of it: `taken`, `duplicate`, `late`, or `beyond` what can be revised."""
        node, key = self.node(headers.node), (headers.boot_id, headers.epoch_us)
        is_new, clock_us = node.is_new(key, headers.seq), self.clocks[GPU_SAMPLES].now_us
        node.note_heard(clock_us)
        if not arrived.rows:
            return "taken" if is_new else "duplicate"
        start_us, end_us = arrived.start_us, arrived.end_us
        node.note_heard(end_us)
        if not is_new:
            self._note_late(node, offset, start_us, end_us, FOREVER_US)
            return "duplicate"
        if not node.started:
            node.start(start_us, offset, clock_us, self.settings, self.closed_to.get((self.name, node.node), 0))
        node.history.low_us = min(node.history.low_us, self.settings.calendar.start_of(start_us))
        became = self._place(node, offset, start_us, end_us)
        if clock_us is None or end_us > max(node.cut_to_us, node.closed_to_us):
            reading = arrived.held(headers.boot_id, headers.epoch_us, headers.seq, offset)
            node.buffered.append(Buffered(start_us, end_us, reading))
            self.fresh.touch(node.node, start_us, end_us)
        for read_us, devices in arrived.listings:
            listed = node.list_devices(read_us, offset, devices)
            if devices is arrived.devices:
                arrived.share_devices(listed)
        if key == node.asserting:
            node.assert_complete(headers.complete_to_us, clock_us, offset, self.settings)
            self.due.note(node)
        return became

    def take_gap(self, name: str, topic: str, gap: SeenGap) -> None:
        """Takes a gap of a collector's spool; one of readings before the node's first touches nothing."""
        node = self.node(name)
        if topic == GPU_SAMPLES:
            node.note_heard(max(gap.end_us, self.clocks[GPU_SAMPLES].now_us or 0))
            if node.started:
                self._place(node, gap.offset, gap.start_us, gap.end_us + 1)
        if topic == POD_MAPPINGS:
            self._judge(node, topic, gap.offset, gap.start_us, gap.end_us + 1)
        node.take_gap(topic, gap)

    def take_snapshot(self, name: str, offset: int, sender: tuple[str, int], snapshot: Snapshot) -> None:
        """Takes a snapshot; one that comes late is seen by the windows of its time and after."""
        node = self.node(name)
        self._judge(node, POD_MAPPINGS, offset, snapshot.taken_us - self.settings.slack_us)
        node.take_snapshot(offset, sender, snapshot)

    def take_pod(self, name: str, offset: int, pod: PodRecord) -> None:
        """Takes a pod's record; what it changes in closed windows is late."""
        node, pod = self.node(name), shared_pod(pod)
        before = node.history.take_pod(offset, pod, self.clocks[POD_EVENTS], self.settings.reach_us)
        self._judge(node, POD_EVENTS, offset, pod_changes_from(before, pod))
        node.pods.append((offset, pod))

    def take_record(self, name: str, offset: int, record: NodeRecord) -> None:
        """Takes a node's record; what it changes in closed windows is late."""
        node = self.node(name)
        before = node.history.take_record(offset, record, self.clocks[POD_EVENTS], self.settings.reach_us)
        self._judge(node, POD_EVENTS, offset, node_changes_from(before, record))
        node.records.append((offset, record))

    def next_window(self) -> tuple[NodeState, NodeWindow] | None:
        """The oldest open window of all nodes if its three cuts are known and all below them was read, and its node."""
        node = self.due.first()
        if node is None:
            return None
        start_us = node.closed_to_us
        cuts = self.first_cuts(start_us)
        if cuts is None or not self.has_read_to_due(start_us):
            return None
        return node, node.window(start_us, (node.cuts[start_us], *cuts), self.read_from(start_us), self.settings)

    def has_read_to_due(self, window_start_us: int) -> bool:
        """Whether pod-mappings and pod-events are read up to the cuts of a window's first result."""
        cuts = self.first_cuts(window_start_us)
        return cuts is not None and self.position[POD_MAPPINGS] >= cuts[0] and self.position[POD_EVENTS] >= cuts[1]

    def first_cuts(self, window_start_us: int) -> tuple[int, int] | None:
        """Cuts of a window's first result in pod-mappings and pod-events, None where a clock has not come so far."""
        at_us = self.settings.calendar.due_us(window_start_us)
        mappings, events = self.clocks[POD_MAPPINGS].first_at(at_us), self.clocks[POD_EVENTS].first_at(at_us)
        return None if mappings is None or events is None else (mappings, events)

    def ready_minute(self) -> int:
        """The newest minute up to which revisions can be made: all three topics are read up to where it began."""
        clocks = [clock.now_us for clock in self.clocks.values()]
        minute = min(0 if now is None else now for now in clocks) // MINUTE_US * MINUTE_US
        offsets = {topic: clock.first_at(minute) for topic, clock in self.clocks.items()}
        return minute if all(at is not None and self.position[topic] >= at for topic, at in offsets.items()) else 0

    def note_closed(self, node: NodeState, window: NodeWindow) -> bool:
        """Closes a node's oldest open window, and notes what a revision could not find out; False if it has no rows."""
        node.note_record(window)
        absent = node.is_absent(window)
        if absent or window.listed_us < window.start_us:
            node.history.note_quiet(window.start_us, window.end_us, window.listing, absent)
        node.note_closed(window)
        return not absent

    def floors(self) -> tuple[int, int]:
        """Offsets in pod-mappings and pod-events below which no window that may still close can see."""
        if (clock_us := self.clocks[GPU_SAMPLES].now_us) is None:
            return self.first[POD_MAPPINGS], self.first[POD_EVENTS]
        horizon_us = self.settings.calendar.start_of(clock_us - self.settings.first_window_horizon_us)
        return self.read_from(min([horizon_us, *self.open_from_us()]))

    def read_from(self, window_start_us: int) -> tuple[int, int]:
        """Where a window begins to read pod-mappings and pod-events."""
        mappings, events = (self.clocks[t].read_from(window_start_us - self.settings.reach_back_us) for t in TOPICS[1:])
        return mappings, events

    def opens_us(self, node: NodeState) -> int:
        """Before which no window of a node is open or will be: where its next life may begin, if none is on."""
        if node.started or node.cuts:
            return node.closed_to_us
        clock_us = self.clocks[GPU_SAMPLES].now_us or 0
        return max(node.closed_to_us, self.settings.calendar.start_of(clock_us - self.settings.first_window_horizon_us))

    def open_from_us(self) -> list[int]:
        """Where the oldest open window of each node that has some starts."""
        return [node.closed_to_us for node in self.nodes.values() if node.started or node.cuts]

    def _place(self, node: NodeState, offset: int, start_us: int, end_us: int) -> str:
        """Notes which windows a record of gpu-samples touches, and which of them were cut before it came."""
        calendar, clock_us = self.settings.calendar, self.clocks[GPU_SAMPLES].now_us
        for window_us in calendar.starts(max(calendar.start_of(start_us), node.cut_to_us), end_us):
            first, last = self.ranges.get(window_us, (offset, offset + 1))
            self.ranges[window_us] = min(first, offset), max(last, offset + 1)
        is_late = clock_us is not None and end_us <= node.cut_to_us
        touches_some = self._note_late(node, offset, start_us, end_us, clock_us)
        return "taken" if not is_late else "late" if touches_some else "beyond"

    def _note_late(self, node: NodeState, offset: int, start_us: int, end_us: int, clock_us: int | None) -> bool:
        """Notes a record of gpu-samples as late for windows that are cut; False where that is beyond the reach.

        `clock_us` is forever for a duplicate: no minute shows it. Before the first clock, that will judge.
        """
        if self.clocks[GPU_SAMPLES].now_us is None or clock_us is None:
            node.early.append((offset, start_us, end_us, clock_us))
            return True
        if start_us >= node.cut_to_us:
            return False
        fact = LateFact(offset, start_us, end_us, node.cut_to_us, clock_us)
        if clock_us != FOREVER_US and not fact.windows(0, self.settings):
            return False
        if offset >= self.known[GPU_SAMPLES]:
            node.history.add(GPU_SAMPLES, fact)
            self.late_nodes.add(node.node)
        return True

    def _judge_early(self, node: NodeState, now_us: int) -> None:
        """Judges by the first clock what came before it."""
        early, node.early = node.early, []
        for offset, start_us, end_us, clock_us in early:
            self._note_late(node, offset, start_us, end_us, now_us if clock_us is None else clock_us)

    def _judge(self, node: NodeState, topic: str, offset: int, start_us: int, end_us: int | None = None) -> None:
        """Notes a record of pod-mappings or pod-events as late for the cut windows whose time it speaks of."""
        clock_us = self.clocks[topic].now_us
        if clock_us is None or offset < self.known[topic]:
            return
        before_us = self.settings.calendar.due_before(clock_us)
        if start_us < before_us:
            end_us = before_us if end_us is None else end_us
            node.history.add(topic, LateFact(offset, start_us, min(end_us, before_us), before_us, clock_us))
            self.late_nodes.add(node.node)
