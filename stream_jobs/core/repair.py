"""Repair passes: which closed windows late facts touch, which parts of the log they need, and the windows made anew.

A revision is made by the same closing function as the first result, from the log: the facts below the window's first
cuts and the late facts that touch it, up to the revision's minute. Pure: the shell reads the log (part_reader.py,
lane.revised), gathered.py keeps what is needed of it. Law: revisions are the oracle's, whatever the interleaving and
the crashes (tests/property/test_revisions.py).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from schemas.headers import READING
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.decode import Reading

from .assemble import DeviceList, Facts, assemble, newest_pods, touched
from .cluster import ClusterState
from .contents import Content
from .cuts import SequenceSet
from .held import listings_of
from .history import TOPICS, NodeHistory
from .identity import FOREVER_US
from .late import LateFact
from .lives import life_at
from .node import NodeState
from .settings import MeterSettings
from .window import NodeWindow

LOOKS_A_PLAN = 200
LOOKS_AT_ONCE, NODES_AT_ONCE = 10_000, 200
"""About as many are planned at a time: planning is one step of a round, also where no window has to be looked at."""
_NEAR = 500
"""Parts of a log that are no further apart than this are read as one."""

FIRST = 0
"""The minute of a window's first result."""


@dataclass(frozen=True, slots=True)
class Look:
    """A node's window to be made anew as of some minutes; `before` is the minute of what was published last."""

    node: str
    window_start_us: int
    before_us: int
    minutes_us: tuple[int, ...]


@dataclass(slots=True)
class Plan:
    """Looks of one cluster; `done` says of which nodes the looks up to a minute are made once these are."""

    cluster: str
    looks: list[Look]
    done: list[tuple[str, int]] = field(default_factory=list)


def plan_repairs(cluster: ClusterState) -> list[Plan]:
    """The next looks that can be made now, in plans of a bounded size, oldest windows first.

    Nodes take turns: none waits for those that come before it by name and are late again and again.
    """
    ready_us, looks, done = cluster.ready_minute(), [], []
    if ready_us > cluster.planned_us:
        cluster.planned_us = ready_us
        cluster.late_nodes |= cluster.waiting_nodes
        cluster.waiting_nodes.clear()
    names = sorted(cluster.late_nodes)
    first = bisect_right(names, cluster.planned_last)
    for node in [cluster.nodes[name] for name in names[first:] + names[:first]]:
        if not node.history.pending(FOREVER_US - 1):
            cluster.late_nodes.discard(node.node)
        pending = node.history.pending(ready_us)
        if not pending:
            continue
        if not _is_closed(pending, node, cluster):
            if not node.started:
                cluster.late_nodes.discard(node.node)
                cluster.waiting_nodes.add(node.node)
            continue
        looks += _looks(node, pending, cluster)
        done.append((node.node, max(fact.minute_us for fact in pending)))
        cluster.planned_last = node.node
        if len(looks) >= LOOKS_AT_ONCE or len(done) >= NODES_AT_ONCE:
            break
    looks.sort(key=lambda look: (look.window_start_us, look.node))
    plans = [Plan(cluster.name, looks[at : at + LOOKS_A_PLAN]) for at in range(0, len(looks), LOOKS_A_PLAN)]
    if done and not plans:
        plans.append(Plan(cluster.name, []))
    last = {look.node: at // LOOKS_A_PLAN for at, look in enumerate(looks)}
    for name, minute_us in done:
        plans[last.get(name, 0)].done.append((name, minute_us))
    return plans


def _is_closed(pending: list[LateFact], node: NodeState, cluster: ClusterState) -> bool:
    """Whether every window that the facts touch has its first result, or never gets one and is due all the same."""
    low_us, s = node.history.low_us if node.started else 0, cluster.settings
    last = max((window for fact in pending if (window := fact.last_window(low_us, s)) is not None), default=None)
    return last is None or (cluster.opens_us(node) > last and cluster.has_read_to_due(last))


def _looks(node: NodeState, pending: list[LateFact], cluster: ClusterState) -> list[Look]:
    history, s = node.history, cluster.settings
    minutes: dict[int, set[int]] = defaultdict(set)
    for fact in pending:
        for start_us in fact.windows(history.low_us, s):
            minutes[start_us].add(fact.minute_us)
    before = dict.fromkeys(sorted(minutes), FIRST)
    starts = list(before)
    for fact in [f for facts in history.facts.values() for f in facts if f.minute_us <= history.looked_to_us]:
        for start_us in _touched_of(starts, fact, s):
            before[start_us] = max(before[start_us], fact.minute_us)
    return [Look(node.node, start_us, before[start_us], tuple(sorted(minutes[start_us]))) for start_us in starts]


def _touched_of(starts: Sequence[int], fact: LateFact, s: MeterSettings) -> Iterator[int]:
    """Those of some windows, given by their starts in order, that a fact touches."""
    first = bisect_left(starts, s.calendar.start_of(fact.start_us))
    return (start_us for start_us in starts[first : bisect_left(starts, fact.end_us)] if fact.touches(start_us, s))


def parts_of(cluster: ClusterState, looks: Iterable[Look]) -> dict[str, list[tuple[int, int]]]:
    """The parts [from, to) of each topic that some looks need, in order."""
    parts: dict[str, list[tuple[int, int]]] = {topic: [] for topic in TOPICS}
    starts_of: dict[str, list[int]] = defaultdict(list)
    for look in looks:
        start_us, history = look.window_start_us, cluster.nodes[look.node].history
        starts_of[look.node].append(start_us)
        if start_us in cluster.ranges:
            parts[GPU_SAMPLES].append(cluster.ranges[start_us])
        quiet = history.quiet_at(start_us)
        if quiet and quiet.listing >= 0:
            parts[GPU_SAMPLES].append((quiet.listing, quiet.listing + 1))
        cuts = cluster.first_cuts(start_us)
        if cuts:
            for topic, first, last in zip(TOPICS[1:], cluster.read_from(start_us), cuts, strict=True):
                parts[topic].append((first, last))
    for name, starts in starts_of.items():
        starts.sort()
        for topic, facts in cluster.nodes[name].history.facts.items():
            touching = (f.offset for f in facts if any(_touched_of(starts, f, cluster.settings)))
            parts[topic] += [(offset, offset + 1) for offset in touching]
    return {topic: _merged(some) for topic, some in parts.items()}


def _merged(parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for first, last in sorted(parts):
        if out and first <= out[-1][1] + _NEAR:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        elif first < last:
            out.append((first, last))
    return out


def remake(looks: Iterable[Look], contents: dict[str, list[Content]], cluster: ClusterState) -> Iterator[NodeWindow]:
    """The windows of some looks as of each of their minutes; one without rows then is left out.

    The revision of a window that stands for what was published last is its `before_us`.
    """
    by_node: dict[str, dict[str, list[Content]]] = {topic: defaultdict(list) for topic in TOPICS}
    for topic, rows in contents.items():
        for content in rows:
            by_node[topic][content.headers.node].append(content)
    for look in looks:
        node = cluster.nodes[look.node]
        seen = _Seen({topic: by_node[topic][look.node] for topic in TOPICS}, node, look.window_start_us, cluster)
        for minute_us in (look.before_us, *look.minutes_us):
            window = seen.window(minute_us)
            if window is not None:
                yield window


class _Seen:
    """What a window of a node may see, minute by minute."""

    def __init__(
        self, contents: dict[str, list[Content]], node: NodeState, start_us: int, cluster: ClusterState
    ) -> None:
        self._contents, self._node, self._start_us, self._cluster = contents, node, start_us, cluster
        self._life = life_at(node.lives, start_us)
        self._late = {
            topic: {f.offset: f for f in facts if start_us < f.before_us} for topic, facts in node.history.facts.items()
        }

    def window(self, minute_us: int) -> NodeWindow | None:
        """The window as of a minute; None where it has no rows, or its first result was never made."""
        first_us = self._life.first_us
        if minute_us == FIRST and (first_us is None or self._start_us < first_us):
            return None
        cuts = self._cluster.first_cuts(self._start_us)
        if cuts is None:
            return None
        later = [self._cluster.clocks[topic].first_at(minute_us) or 0 if minute_us else 0 for topic in TOPICS]
        facts = self._facts(minute_us, cuts)
        shown = (later[0], max(cuts[0], later[1]), max(cuts[1], later[2]))
        s = self._cluster.settings
        window = assemble(self._cluster.name, self._node.node, self._start_us, minute_us, shown, facts, s)
        return None if self._is_absent(window) else window

    def _facts(self, minute_us: int, cuts: tuple[int, int]) -> Facts:
        s, start_us = self._cluster.settings, self._start_us
        end_us, floors = s.calendar.end_of(start_us), self._cluster.read_from(start_us)
        samples = self._shown(GPU_SAMPLES, minute_us, None)
        mappings = self._shown(POD_MAPPINGS, minute_us, (floors[0], cuts[0]))
        events = self._shown(POD_EVENTS, minute_us, (floors[1], cuts[1]))
        quiet = self._node.history.quiet_at(start_us)
        readings, lists = [], []
        for reading in _readings_once(samples):
            first, last = touched(reading.device)
            here = first < end_us and last > start_us
            if here:
                readings.append(reading)
            if here or (quiet and reading.offset == quiet.listing):
                lists += [DeviceList(at, reading.offset, devices) for at, devices in listings_of(reading.device)]
        listed = sorted((d for d in lists if d.read_us < end_us), key=lambda d: (d.read_us, d.offset))
        gaps = [c.gap for c in mappings if c.gap]
        is_late = self._late[GPU_SAMPLES]
        gaps += [c.gap for c in samples if c.gap and (c.offset in is_late or self._life.has(c.offset))]
        return Facts(
            readings=readings,
            lists=listed,
            snapshots=[c.snapshot for c in mappings if c.snapshot],
            pods=newest_pods((c.offset, c.pod) for c in events if c.pod),
            records=[(c.offset, c.record) for c in events if c.record],
            boots=self._life.boots,
            gaps=gaps,
        )

    def _shown(self, topic: str, minute_us: int, first: tuple[int, int] | None) -> list[Content]:
        return [c for c in self._contents[topic] if self._shows(topic, c.offset, minute_us, first)]

    def _shows(self, topic: str, offset: int, minute_us: int, first: tuple[int, int] | None) -> bool:
        """Whether the window sees a record as of a minute; `first` is what its first result saw, None where unknown."""
        fact = self._late[topic].get(offset)
        if fact is not None:
            return fact.minute_us <= minute_us and fact.touches(self._start_us, self._cluster.settings)
        return first is None or first[0] <= offset < first[1]

    def _is_absent(self, window: NodeWindow) -> bool:
        if window.has_spans:
            return False
        if window.node_record is not None:
            deleted_us = window.node_record.deleted_us
            return deleted_us is not None and deleted_us < window.end_us
        quiet = self._node.history.quiet_at(self._start_us)
        return quiet is not None and quiet.absent


def _readings_once(contents: Iterable[Content]) -> list[Reading]:
    """The readings that list devices, without duplicates; of some that touch no window only the number is known."""
    seen: dict[tuple[str, int], SequenceSet] = defaultdict(SequenceSet)
    found = []
    for content in contents:
        reading, headers = content.reading, content.headers
        if reading is None and headers.record != READING:
            continue
        is_first = seen[headers.boot_id, headers.epoch_us].add(headers.seq)
        if is_first and reading is not None and len(reading.device["read_us"]):
            found.append(reading)
    return found


_REASONS = {GPU_SAMPLES: "late_reading", POD_MAPPINGS: "late_snapshot", POD_EVENTS: "late_pod_event"}


def reasons(history: NodeHistory, window_start_us: int, minute_us: int, settings: MeterSettings) -> list[str]:
    """Which kinds of late facts a minute showed to a window."""
    return [
        _REASONS[topic]
        for topic, facts in history.facts.items()
        if any(f.minute_us == minute_us and f.touches(window_start_us, settings) for f in facts)
    ]
