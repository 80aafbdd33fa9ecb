"""What a repair pass keeps of the parts of a log that it reads: what its own windows need, and nothing else.

Read in slices, so a pass may take many rounds. Of other nodes nothing is kept; of a node's readings that touch no
window of the pass, their numbers; what would be more than `KEPT_BYTES` is left to a pass of its own. Pure: the shell
reads (part_reader.py). Law: neither the log's length nor its other nodes make a pass larger, and however it is sliced
the revisions are the same (tests/unit/stream_jobs/test_repair_bounds.py, tests/property/test_revisions.py).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schemas.headers import READING, Headers
from schemas.names import GPU_SAMPLES

from .assemble import touched
from .cluster import ClusterState
from .contents import Content, LogRecord, contents_of
from .cuts import SequenceSet
from .history import TOPICS
from .repair import Look, Plan, parts_of

KEPT_BYTES = 32 << 20
"""Payloads that a pass of more than one look may keep; decoded, a few looks at a time, they are some times larger."""


class Part(NamedTuple):
    """Offsets [first, last) of a topic, still to be read."""

    topic: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """A record of a plan's node; without a payload only a reading's number is left of it."""

    record: LogRecord
    headers: Headers
    touches: tuple[int, int] | None = None
    """The time that a reading with rows touches."""

    def stub(self) -> "_Kept":
        record = self.record
        return _Kept(LogRecord(record.offset, record.append_us, [], b""), self.headers)


class Gathered:
    """What was read of a plan so far; `left` are its parts still to be read."""

    def __init__(self, plan: Plan, cluster: ClusterState) -> None:
        self.plan = plan
        self.bytes = 0
        self._cluster = cluster
        self._left = [Part(t, *part) for t, parts in parts_of(cluster, plan.looks).items() for part in parts]
        self._kept: dict[str, list[_Kept]] = {topic: [] for topic in TOPICS}
        self._wanted = _Wanted(plan.looks, cluster)
        self._passed: dict[tuple[str, str, int], SequenceSet] = defaultdict(SequenceSet)
        """Numbers of readings that touch no window: a later one of the same number is a duplicate to all of them."""
        self._late = {
            name: {fact.offset for fact in cluster.nodes[name].history.facts[GPU_SAMPLES]}
            for name in self._wanted.nodes
        }

    @property
    def records(self) -> int:
        """How many records are kept."""
        return sum(map(len, self._kept.values()))

    def wanted(self) -> Part | None:
        """What is to be read next; None once all was read."""
        return self._left[0] if self._left else None

    def take(self, records: Sequence[LogRecord], to: int) -> Plan | None:
        """Takes what the log has of the wanted part up to an offset; if that is too much, the plan of what is left out.

        The looks at hand go on with what was read for them.
        """
        part = self._left[0]
        self._left[:1] = [part._replace(first=to)] if to < part.last else []
        nodes, own = self._wanted.nodes, {record.offset: record for record in records if self._is_own(record)}
        for content in contents_of(part.topic, own.values(), self._cluster.name, nodes, self._cluster.settings):
            self._keep(part.topic, content, own[content.offset])
        return self._split() if self.bytes > KEPT_BYTES and len(self.plan.looks) > 1 else None

    def contents(self, looks: Sequence[Look]) -> dict[str, list[Content]]:
        """What the log says to some looks of the plan, by topic and in its order."""
        wanted, cluster = _Wanted(looks, self._cluster), self._cluster
        found: dict[str, list[Content]] = {}
        for topic, kept in self._kept.items():
            own = [k for k in kept if k.headers.node in wanted.nodes]
            whole = [k.record for k in own if wanted.needs(k)]
            stubs = [Content(k.record.offset, k.headers) for k in own if not wanted.needs(k)]
            contents = contents_of(topic, whole, cluster.name, wanted.nodes, cluster.settings)
            found[topic] = sorted([*contents, *stubs], key=lambda content: content.offset)
        return found

    def _is_own(self, record: LogRecord) -> bool:
        """Whether a record names a node of the plan; most do not, and are not looked into any further."""
        nodes = self._wanted.nodes
        return any(name == "node" and value.decode("ascii", "replace") in nodes for name, value in record.headers)

    def _keep(self, topic: str, content: Content, record: LogRecord) -> None:
        reading, headers = content.reading, content.headers
        if reading is None:
            self._add(topic, _Kept(record, headers))
            return
        kept = _Kept(record, headers, touched(reading.device) if len(reading.device["read_us"]) else None)
        passed = self._passed[headers.node, headers.boot_id, headers.epoch_us]
        if headers.seq in passed:
            return
        if self._wanted.needs(kept):
            self._add(topic, kept)
        elif record.offset in self._late[headers.node]:
            # Which windows and minutes see it is not the same for all of them.
            self._add(topic, kept.stub())
        else:
            passed.add(headers.seq)

    def _add(self, topic: str, kept: _Kept) -> None:
        self._kept[topic].append(kept)
        self.bytes += len(kept.record.payload)

    def _split(self) -> Plan:
        """Keeps the first half of the looks and returns a plan of the others, of which nothing is kept."""
        looks, cluster = self.plan.looks, self.plan.cluster
        half = len(looks) // 2
        others = {look.node for look in looks[half:]}
        rest = Plan(cluster, looks[half:], [done for done in self.plan.done if done[0] in others])
        self.plan = Plan(cluster, looks[:half], [done for done in self.plan.done if done[0] not in others])
        self._wanted = _Wanted(self.plan.looks, self._cluster)
        before, self._kept, self.bytes = self._kept, {topic: [] for topic in TOPICS}, 0
        for topic, all_kept in before.items():
            for kept in all_kept:
                if kept.headers.node in self._wanted.nodes:
                    self._add(topic, kept if self._wanted.needs(kept) else kept.stub())
        at = {topic: 1 << 62 for topic in TOPICS} | {part.topic: part.first for part in reversed(self._left)}
        parts = parts_of(self._cluster, self.plan.looks)
        self._left = [
            Part(topic, max(first, at[topic]), last)
            for topic, some in parts.items()
            for first, last in some
            if last > at[topic]
        ]
        return rest


class _Wanted:
    """The windows of some looks, by node, and the readings that list devices for them."""

    def __init__(self, looks: Iterable[Look], cluster: ClusterState) -> None:
        self._calendar = cluster.settings.calendar
        self._starts: dict[str, list[int]] = defaultdict(list)
        self._listings: dict[str, set[int]] = defaultdict(set)
        for look in sorted(looks, key=lambda look: look.window_start_us):
            self._starts[look.node].append(look.window_start_us)
            quiet = cluster.nodes[look.node].history.quiet_at(look.window_start_us)
            if quiet:
                self._listings[look.node].add(quiet.listing)
        self.nodes = set(self._starts)

    def needs(self, kept: _Kept) -> bool:
        """Whether more than its number is wanted of a record; windows do not overlap, so the last one before tells."""
        if kept.headers.record != READING:
            return True
        if kept.touches is None:
            return False
        node, (first_us, last_us) = kept.headers.node, kept.touches
        at = bisect_left(self._starts[node], last_us)
        touches = at > 0 and self._calendar.end_of(self._starts[node][at - 1]) > first_us
        return touches or kept.record.offset in self._listings[node]
