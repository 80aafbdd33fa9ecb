"""What a meter knows of one node while its windows are open: sequences, watermark, cuts, readings, mappings, pods.

Every change is a function of records in the order of their topic; offsets stay with facts, so that a record at or
above a cut is not seen by that cut's window.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from msgspec.structs import replace

from schemas.names import GPU_SAMPLES
from schemas.pods import NodeRecord, PodRecord
from schemas.snapshots import Snapshot

from .assemble import DeviceList, Facts, assemble, newest_pods
from .carry import NodeCarry, SenderCarry, sequences_of
from .cuts import SequenceSet
from .held import HeldReading
from .history import NodeHistory
from .identity import Directory
from .lives import Life, life_at, opens_after
from .settings import MeterSettings
from .sharing import shared_snapshot
from .window import DeviceFacts, NodeWindow, SeenGap, SeenSnapshot, SenderKey


@dataclass(slots=True)
class Buffered:
    """A reading that an open window needs, and the time it touches."""

    start_us: int
    end_us: int
    reading: HeldReading


@dataclass(slots=True)
class NodeState:
    """State of one node; windows that start before `closed_to_us` are closed, before `cut_to_us` are cut."""

    cluster: str
    node: str
    senders: dict[SenderKey, SequenceSet] = field(default_factory=dict)
    lives: list[Life] = field(default_factory=list)
    last_us: int = 0
    """The newest time of its records in gpu-samples and of the clocks they came at."""
    asserting: SenderKey | None = None
    watermark_us: int | None = None
    cut_to_us: int = 0
    closed_to_us: int = 0
    started: bool = False
    """Whether its life is on and has windows."""
    gone: bool = False
    """The newest node record that a closed window saw told of a deletion before that window."""
    cuts: dict[int, int] = field(default_factory=dict)
    device_lists: list[DeviceList] = field(default_factory=list)
    buffered: list[Buffered] = field(default_factory=list)
    sample_gaps: list[SeenGap] = field(default_factory=list)
    mapping_gaps: list[SeenGap] = field(default_factory=list)
    snapshots: list[SeenSnapshot] = field(default_factory=list)
    pods: list[tuple[int, PodRecord]] = field(default_factory=list)
    records: list[tuple[int, NodeRecord]] = field(default_factory=list)
    _pods_shown: tuple[tuple[int, int, int], list[PodRecord]] | None = None
    _directory: Directory | None = None
    history: NodeHistory = field(default_factory=NodeHistory)
    early: list[tuple[int, int, int, int | None]] = field(default_factory=list)
    """(offset, start, end, clock) of what came before the first clock: whether that is late, it will tell."""

    def start(
        self, first_us: int, offset: int, clock_us: int | None, settings: MeterSettings, closed_to_us: int
    ) -> None:
        """Opens a life's windows at the one of its first reading, within the horizon around the clock."""
        first = settings.calendar.start_of(first_us)
        self.started = True
        self.cut_to_us = max(self.cut_to_us, self._clipped(first, clock_us, settings))
        if not self.cuts:
            self.closed_to_us = max(self.closed_to_us, closed_to_us, self.cut_to_us)
        self.lives[-1].first_us, self.lives[-1].first_offset = self.cut_to_us, offset

    @property
    def silent_since_us(self) -> int:
        """Since when it is silent if it stays so: its watermark, or what is cut while it asserted none.

        Never before its life's first window, so that gaps of the clock before that never count.
        """
        if self.watermark_us is None:
            return self.cut_to_us
        return max(self.watermark_us, self.lives[-1].first_us or 0)

    def note_heard(self, time_us: int | None) -> None:
        """Notes a time of one of its records in gpu-samples, or of the clock it came at."""
        if time_us is not None and time_us > self.last_us:
            self.last_us = time_us

    def end_if_over(self, now_us: int, offset: int, reach_us: int) -> None:
        """Ends its life at a clock record if no window that is cut from now on can have rows."""
        edge_us = self.cut_to_us if self.started else now_us
        if self.senders and edge_us - self.last_us > reach_us:
            self.lives[-1].over_offset, self.lives[-1].over_us = offset, self.cut_to_us
            self.senders, self.asserting, self.watermark_us, self.started = {}, None, None, False

    def clip(self, clock_us: int, settings: MeterSettings, closed_to_us: int) -> None:
        """Judges a node that started before the first clock by that clock; what is closed stays so."""
        if self.started and not self.cuts:
            self.cut_to_us = self.closed_to_us = self._clipped(self.cut_to_us, clock_us, settings)
            self.closed_to_us = max(self.closed_to_us, closed_to_us)
            self.lives[-1].first_us = self.cut_to_us

    @staticmethod
    def _clipped(first_us: int, clock_us: int | None, settings: MeterSettings) -> int:
        if clock_us is None:
            return first_us
        latest = settings.calendar.start_of(clock_us)
        earliest = settings.calendar.start_of(clock_us - settings.first_window_horizon_us)
        return min(max(first_us, earliest), latest)

    def is_new(self, key: SenderKey, seq: int) -> bool:
        """Takes a sequence number; False for a duplicate. The newest epoch is the one whose assertions count."""
        sequences = self.senders.get(key)
        if sequences is None:
            sequences = self.senders[key] = SequenceSet()
            if not self.lives or self.lives[-1].over_offset is not None:
                self.lives.append(Life())
                self.last_us = 0
            if key[0] not in self.lives[-1].boots:
                self.lives[-1].boots.append(key[0])
                self.asserting = key
            elif self.asserting is None or (key[0] == self.asserting[0] and key[1] > self.asserting[1]):
                self.asserting = key
        return sequences.add(seq)

    def list_devices(self, read_us: int, offset: int, devices: list[DeviceFacts]) -> list[DeviceFacts]:
        """Keeps a reading's device list in event time and returns it; equal neighbours share one list."""
        at = bisect_right(self.device_lists, (read_us, offset), key=lambda d: (d.read_us, d.offset))
        if at and self.device_lists[at - 1].devices == devices:
            devices = self.device_lists[at - 1].devices
        self.device_lists.insert(at, DeviceList(read_us, offset, devices))
        return devices

    def advance(self, to_us: int, cut_offset: int, settings: MeterSettings) -> None:
        """Cuts every window whose end and lateness lie at or before a time."""
        while settings.calendar.due_us(self.cut_to_us) <= to_us:
            if self.cut_to_us >= self.closed_to_us:
                self.cuts[self.cut_to_us] = cut_offset
            self.cut_to_us = settings.calendar.end_of(self.cut_to_us)

    def assert_complete(self, to_us: int, clock_us: int | None, offset: int, settings: MeterSettings) -> None:
        """Takes an assertion, believed up to a bound beyond the clock; before the first clock none counts."""
        if clock_us is None:
            return
        asserted = min(to_us, clock_us + settings.ahead_us)
        if self.watermark_us is None or asserted > self.watermark_us:
            self.watermark_us = asserted
            self.advance(asserted, offset + 1, settings)

    def window(
        self, start_us: int, cuts: tuple[int, int, int], floors: tuple[int, int], settings: MeterSettings
    ) -> NodeWindow:
        """The closing function's input for a window: what lies below its cuts and at or above the topics' floors."""
        end_us = settings.calendar.end_of(start_us)
        listed = [d for d in self.device_lists if d.read_us < end_us and d.offset < cuts[0]]
        first = bisect_left(self.snapshots, floors[0], key=lambda s: s.offset)
        last = bisect_left(self.snapshots, cuts[1], key=lambda s: s.offset)
        gaps = [g for g in self.sample_gaps if g.offset < cuts[0]]
        gaps += [g for g in self.mapping_gaps if floors[0] <= g.offset < cuts[1]]
        facts = Facts(
            readings=[
                b.reading
                for b in self.buffered
                if b.start_us < end_us and b.end_us > start_us and b.reading.offset < cuts[0]
            ],
            lists=listed,
            snapshots=self.snapshots[first:last],
            pods=self._newest_pods(floors[1], cuts[2]),
            records=[(offset, record) for offset, record in self.records if floors[1] <= offset < cuts[2]],
            boots=life_at(self.lives, start_us).boots,
            gaps=gaps,
        )
        return assemble(self.cluster, self.node, start_us, 0, cuts, facts, settings)

    def _newest_pods(self, floor: int, cut: int) -> list[PodRecord]:
        """The newest record of each pod between offsets; the same list as before while these are the same."""
        first = bisect_left(self.pods, floor, key=itemgetter(0))
        last = bisect_left(self.pods, cut, key=itemgetter(0))
        at = (self.pods[first][0], self.pods[last - 1][0], last - first) if last > first else (0, 0, 0)
        if self._pods_shown is None or self._pods_shown[0] != at:
            self._pods_shown = (at, newest_pods(self.pods[first:last]))
        return self._pods_shown[1]

    def directory_of(self, pods: list[PodRecord]) -> Directory:
        """The node's pods as a window shows them, made anew only when they are others than at its last window."""
        known = self._directory
        if known is None or known.pods is not pods:
            same = known is not None and list(map(id, known.pods)) == list(map(id, pods))
            known = self._directory = known if known and same else Directory(pods)
            known.pods = pods
        return known

    def note_record(self, window: NodeWindow) -> None:
        """Notes whether the node is gone by the end of a window, where a record of it tells in this life.

        A deletion is published once and the watcher forgets it, so it is remembered beyond what a window reads back.
        """
        self.gone = self.gone and window.start_us != life_at(self.lives, window.start_us).first_us
        if window.node_record is not None:
            deleted_us = window.node_record.deleted_us
            self.gone = deleted_us is not None and deleted_us < window.end_us

    def note_closed(self, window: NodeWindow) -> None:
        """Notes that its oldest open window is closed."""
        del self.cuts[window.start_us]
        end_us = window.end_us
        self.closed_to_us = end_us if end_us in self.cuts else opens_after(self.lives, end_us)

    def is_absent(self, window: NodeWindow) -> bool:
        """Whether a window has no rows since the node is gone; if some reading spans time of it, it has."""
        return self.gone and not window.has_spans

    def take_snapshot(self, offset: int, sender: SenderKey, snapshot: Snapshot) -> None:
        """Keeps a snapshot; lists that equal those of the last are shared, so that they are looked at and held once."""
        last = self.snapshots[-1].snapshot if self.snapshots else None
        snapshot = shared_snapshot(snapshot, last)
        self.snapshots.append(SeenSnapshot(offset, sender, snapshot))

    def take_gap(self, topic: str, gap: SeenGap) -> None:
        """Keeps a gap for the windows it touches; one of readings before the node's first has none to touch."""
        if topic != GPU_SAMPLES:
            self.mapping_gaps.append(gap)
        elif self.started and not any(g.start_us <= gap.start_us and gap.end_us <= g.end_us for g in self.sample_gaps):
            self.sample_gaps.append(gap)

    def forget(self, mappings_floor: int, events_floor: int) -> None:
        """Drops what no open window can see any more."""
        self.buffered = [b for b in self.buffered if b.end_us > self.closed_to_us]
        self.sample_gaps = [g for g in self.sample_gaps if g.end_us >= self.closed_to_us]
        self.mapping_gaps = [g for g in self.mapping_gaps if g.offset >= mappings_floor]
        below = min(self.cuts.values(), default=None)
        old = [
            i
            for i, listed in enumerate(self.device_lists)
            if listed.read_us < self.closed_to_us and (below is None or listed.offset < below)
        ]
        del self.device_lists[: old[-1] if old else 0]
        if not self.started and not self.cuts:
            self.device_lists = []
        if self.snapshots and self.snapshots[0].offset < mappings_floor:
            del self.snapshots[: bisect_left(self.snapshots, mappings_floor, key=lambda s: s.offset)]
        if self.pods and self.pods[0][0] < events_floor:
            self.pods = [(o, pod) for o, pod in self.pods if o >= events_floor]
        if self.records and self.records[0][0] < events_floor:
            self.records = [(o, record) for o, record in self.records if o >= events_floor]

    def carry(self) -> NodeCarry:
        """A copy of what the node's samples alone have made so far."""
        return NodeCarry(
            node=self.node,
            senders=[SenderCarry(b, e, [list(i) for i in s.intervals]) for (b, e), s in self.senders.items()],
            lives=[replace(life, boots=list(life.boots)) for life in self.lives],
            last_us=self.last_us,
            asserting=self.asserting,
            watermark_us=self.watermark_us,
            cut_to_us=self.cut_to_us,
            cuts=list(self.cuts.items()),
            device_lists=self._distinct_lists(),
            gaps=[(g.offset, g.start_us, g.end_us) for g in self.sample_gaps],
        )

    def restore(self, carry: NodeCarry, closed_to_us: int) -> None:
        """Takes up a carry; windows before `closed_to_us` are not closed again."""
        self.senders = {(s.boot_id, s.epoch_us): sequences_of(s) for s in carry.senders}
        self.lives, self.last_us = [replace(life, boots=list(life.boots)) for life in carry.lives], carry.last_us
        self.asserting, self.watermark_us = carry.asserting, carry.watermark_us
        self.cut_to_us, self.closed_to_us = carry.cut_to_us, closed_to_us
        self.started = bool(self.senders) and self.lives[-1].first_us is not None
        self.cuts = {w: cut for w, cut in carry.cuts if w >= closed_to_us}
        self.sample_gaps = [SeenGap(*gap) for gap in carry.gaps]
        self.device_lists = []
        for read_us, offset, devices in carry.device_lists:
            self.device_lists.append(DeviceList(read_us, offset, list(devices) or self.device_lists[-1].devices))

    def _distinct_lists(self) -> list[tuple[int, int, Sequence[DeviceFacts]]]:
        """Device lists for the carry; one that equals the list before it is written as an empty one."""
        out: list[tuple[int, int, Sequence[DeviceFacts]]] = []
        last: Sequence[DeviceFacts] = ()
        for listed in self.device_lists:
            devices = listed.devices
            out.append((listed.read_us, listed.offset, () if devices is last else devices))
            last = devices
        return out
