"""The meter of one partition: fed with records of three topics in any interleaving, it closes windows at their cuts.

Owns event time, cuts and progress; must not know Kafka, clocks or where rows go. Laws 2, 3, 6 and 7 of
tests/README.md are tested on it in tests/property/test_meter.py and test_crash.py against a pure function of the log.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas import headers as h
from schemas.clock import decode_clock
from schemas.ids import partition_of
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.decode import DecodeError
from stream_jobs.errors import DeadLetter

from .apart import Apart
from .buffer import arrive
from .carry import Progress, decode_carry, encode_carry
from .checkpoints import Checkpoints
from .close import close_windows
from .cluster import ClusterState
from .contents import Decoded, LogRecord, content_of, decoded_readings, headers_of
from .figures import held_bytes, meter_figures, topic_clocks
from .forget import drop_nodes, forget
from .heard import Heard
from .held import Arrived
from .history import TOPICS
from .identity import Directory
from .live import fresh_windows, provisional_rows
from .node import NodeState
from .repairs import Repairs
from .saved import carry_of, now_of, restore, restore_now
from .settings import MeterSettings, Source
from .window import NodeWindow

MAX_WINDOWS_A_CALL = 500
_COUNTS = (
    "records", "refused", "readings_taken", "readings_duplicate", "readings_late", "late_us", "clocks_ignored",
    "windows", "rows", "violations", "clusters_forgotten", "gaps", "readings_beyond", "beyond_us", "looks",
    "revisions", "revision_rows", "looks_abandoned", "overrides",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that can never succeed, and why."""

    topic: str
    offset: int
    reason: str
    detail: str
    record: LogRecord


class PartitionMeter:
    """Meter of one partition of the three input topics."""

    def __init__(
        self, settings: MeterSettings, source: Source, begin: Progress | Mapping[str, int] | None = None
    ) -> None:
        """A meter that goes on from a progress record, or a fresh one over logs that begin at some offsets, or at 0."""
        self.settings, self.source = settings, source
        self.position, self._known = dict.fromkeys(TOPICS, 0), dict.fromkeys(TOPICS, 0)
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.heard, self.forgotten = dict[str, Heard](), list[str]()
        self._clusters: dict[str, ClusterState] = {}
        self._closed_to: dict[tuple[str, str], int] = {}
        self._gone: set[tuple[str, str]] = set()
        self._checkpoints = Checkpoints()
        self._checkpoint_us = -(1 << 62)
        self._apart = Apart()
        self.repairs = Repairs(settings, source, self._clusters, self.counts)
        if isinstance(begin, Progress):
            self._restore(begin)
        else:
            self.position.update(begin or {})

    def feed(self, topic: str, records: Sequence[LogRecord]) -> list[Refused]:
        """Takes records of a topic in offset order; ones below the position were seen and are passed over."""
        refused: list[Refused] = []
        new = [record for record in records if record.offset >= self.position[topic]]
        readings = decoded_readings(new, self._arrive) if topic == GPU_SAMPLES else {}
        for record in new:
            self.position[topic] = record.offset + 1
            self.counts["records"] += 1
            try:
                self._take(topic, record, readings.get(record.offset))
            except (DeadLetter, ValueError, RecursionError) as error:
                self.counts["refused"] += 1
                refused.append(Refused(topic, record.offset, *_why(error), record))
        self._apart.settle(self._arrive, len(readings))
        return refused

    def close_ready(self) -> pa.Table | None:
        """Rows of windows whose three cuts are known, a bounded number a call; None when there are none."""
        ready: list[NodeWindow] = []
        left = MAX_WINDOWS_A_CALL
        for cluster in self._clusters.values():
            closed: dict[str, NodeState] = {}
            while left and (found := cluster.next_window()) is not None:
                node, window = found
                left -= 1
                closed[node.node] = node
                if cluster.note_closed(node, window):
                    ready.append(window)
            forget(cluster, closed.values())
        if not ready:
            return None
        table = close_windows(ready, self.source, self._directory)
        self.counts["windows"] += len(ready)
        self.counts["rows"] += table.num_rows
        self.counts["violations"] += table.column("holder_kind").to_pylist().count("violation")
        return table

    def provisional(self, most: int, now_s: float, every_s: float) -> pa.Table | None:
        """Rows (LIVE_COLUMNS) of open windows with new readings, of up to `most` nodes; None when there are none."""
        windows = fresh_windows(self._clusters.values(), most, now_s, every_s)
        return provisional_rows(windows, self.source, self.settings.calendar, self._directory) if windows else None

    def progress(self) -> Progress | None:
        """Where to begin after a restart, with the newest carry at or below what is needed; None before the first."""
        begin = self._checkpoints.newest(self._needed())
        if begin is None:
            return None
        carry = begin.carry()
        # A node that a re-read has not met again yet stays closed as far as it was.
        closed = self._closed_to | {(n.cluster, n.node): n.closed_to_us for n in self._nodes() if n.lives}
        carry.closed_to_us = sorted((cluster, node, to_us) for (cluster, node), to_us in closed.items())
        carry.gone = sorted((n.cluster, n.node) for n in self._nodes() if n.gone)
        carry.positions = {topic: max(at, self._known[topic]) for topic, at in self.position.items()}
        carry.now = [now_of(cluster) for cluster in self._clusters.values()]
        floors = [cluster.floors() for cluster in self._clusters.values()]
        offsets = {
            GPU_SAMPLES: carry.samples_offset,
            POD_MAPPINGS: min([self.position[POD_MAPPINGS], *(f[0] for f in floors)]),
            POD_EVENTS: min([self.position[POD_EVENTS], *(f[1] for f in floors)]),
        }
        return Progress(offsets, encode_carry(carry))

    def _needed(self) -> int:
        """Offset of the first reading that an open window may need, else the position."""
        needed = self.position[GPU_SAMPLES]
        for node in self._nodes():
            # Both lie in the order of the log.
            needed = min([needed, *(b.reading.offset for b in node.buffered[:1]), *(e[0] for e in node.early[:1])])
        return needed

    def metrics(self) -> dict[str, int]:
        """Counts since start, and how much is held open."""
        return self.counts | meter_figures(self._clusters.values(), self.settings)

    def held_bytes(self) -> int:
        """Size of the readings that are held."""
        return held_bytes(self._clusters.values())

    def topic_clocks(self) -> dict[str, int]:
        """Event time up to which each topic was read; a topic without a clock yet is left out."""
        return topic_clocks(self._clusters.values())

    def clock_of(self, cluster: str, pick: Callable[[Iterable[int]], int]) -> int:
        """The earliest or latest (`min`, `max`) of a cluster's newest clocks of the three topics; 0 for none."""
        known = self._clusters.get(cluster)
        return pick(clock.now_us or 0 for clock in known.clocks.values()) if known else 0

    def _nodes(self) -> list[NodeState]:
        return [node for cluster in self._clusters.values() for node in cluster.nodes.values()]

    def _take(self, topic: str, record: LogRecord, decoded: Decoded | None) -> None:
        headers = headers_of(record)
        if headers.record == h.CLOCK:
            self._clock(topic, record)
            return
        self._check_place(headers)
        cluster = self._cluster(headers.cluster, record.append_us, {topic: record.offset})
        content = content_of(topic, record, headers, decoded, self.settings)
        if content.arrived is not None:
            self._take_reading(cluster, content.headers, content.arrived, record)
        elif content.snapshot is not None:
            cluster.take_snapshot(headers.node, record.offset, content.snapshot.sender, content.snapshot.snapshot)
        elif content.gap is not None:
            self.counts["gaps"] += 1
            cluster.take_gap(headers.node, topic, content.gap)
        elif content.pod is not None:
            cluster.take_pod(headers.node, record.offset, content.pod)
        elif content.record is not None:
            cluster.take_record(headers.node, record.offset, content.record)

    def _check_place(self, headers: h.Headers) -> None:
        """Refuses a record of no node, and one of a node that belongs on another partition: it would count twice."""
        known = self._clusters.get(headers.cluster)
        if known is not None and headers.node in known.nodes:
            return
        if not headers.cluster or not headers.node:
            raise DeadLetter("headers", f"cluster {headers.cluster!r}, node {headers.node!r}: neither may be empty")
        count, mine = self.source.partitions, self.source.partition
        right = partition_of(headers.cluster, headers.node, count) if count else mine
        if right != mine:
            raise DeadLetter(
                "partition",
                f"node {headers.node!r} of cluster {headers.cluster!r} belongs on partition {right} of {count}, not on "
                f"{mine}: its sender knows another number of partitions; restart it",
            )

    def _arrive(self, payloads: Sequence[bytes]) -> list[Arrived | DecodeError]:
        return arrive(payloads, self.settings.calendar)

    def _take_reading(self, cluster: ClusterState, headers: h.Headers, arrived: Arrived, record: LogRecord) -> None:
        became = cluster.take_reading(headers, record.offset, arrived)
        self._apart.note(cluster, headers.node, arrived, record)
        self.heard.setdefault(headers.cluster, Heard()).readings += became != "duplicate"
        self.counts[f"readings_{became}"] += 1
        if became in ("late", "beyond"):
            self.counts[f"{became}_us"] += arrived.span_us
            if became == "beyond" and record.offset >= self._known[GPU_SAMPLES]:
                reach_s = self.settings.reach_us // 1_000_000
                raise DeadLetter(
                    "late", f"{arrived.span_us} us of GPU time came more than {reach_s} s after their windows"
                )

    def _clock(self, topic: str, record: LogRecord) -> None:
        try:
            clock = decode_clock(record.payload, self.settings.clock_key, topic, self.source.partition)
        except ValueError as error:
            raise DeadLetter("clock", str(error)) from error
        ahead_us = 0 if self.settings.simulated_time else clock.now_us - record.append_us
        if not -self.settings.reach_us <= ahead_us <= self.settings.ahead_us:
            self.counts["clocks_ignored"] += 1
            self._forget_lost_clusters(record.append_us)
            return
        cluster = self._cluster(clock.cluster, record.append_us, {topic: record.offset})
        cluster.heard_us = max(cluster.heard_us, record.append_us)
        self.heard.setdefault(clock.cluster, Heard()).note_clock(clock.override)
        self.counts["overrides"] += clock.override and topic == GPU_SAMPLES
        moved = cluster.take_clock(topic, clock.now_us, record.offset, clock.override)
        self._forget_lost_clusters(record.append_us)
        if moved and clock.now_us - self._checkpoint_us >= self.settings.checkpoint_us:
            self._checkpoint_us = clock.now_us
            clusters = [carry_of(c) for c in self._clusters.values()]
            self._checkpoints.add(self.position[GPU_SAMPLES], clusters, self._needed)
            for known in self._clusters.values():
                drop_nodes(known, self._checkpoints.kept[0].samples_offset)

    def _cluster(self, name: str, heard_us: int, at: Mapping[str, int]) -> ClusterState:
        if name not in self._clusters:
            self._clusters[name] = ClusterState(
                name, self.settings, self._closed_to, self._gone, self.position, self._known,
                {**self.position, **at}, heard_us=heard_us,
            )  # fmt: skip
        return self._clusters[name]

    def _forget_lost_clusters(self, append_us: int) -> None:
        """Drops clusters that have had no clock for the reach, e.g. a mistyped name, lest progress waits for them."""
        lost = [n for n, c in self._clusters.items() if append_us - c.heard_us > self.settings.reach_us]
        for name in lost:
            self.forgotten.append(self._clusters.pop(name).name)
            for key in [key for key in self._closed_to if key[0] == name]:
                del self._closed_to[key]
            self._gone -= {key for key in self._gone if key[0] == name}
            self.heard.pop(name, None)
            self.repairs.clear()
            self.counts["clusters_forgotten"] += 1

    def _directory(self, window: NodeWindow) -> Directory:
        return self._clusters[window.cluster].nodes[window.node].directory_of(window.pods)

    def _restore(self, progress: Progress) -> None:
        carry = decode_carry(progress.carry)
        self.position.update({topic: progress.offsets[topic] for topic in TOPICS})
        self._known.update(carry.positions)
        self._closed_to = {(cluster, node): closed for cluster, node, closed in carry.closed_to_us}
        self._gone = set(carry.gone)
        for now in carry.now:
            restore_now(self._cluster(now.cluster, now.heard_us, {}), now)
        for saved in carry.clusters:
            restore(self._cluster(saved.cluster, saved.heard_us, {}), saved)
        self._checkpoints.add(carry.samples_offset, carry.clusters, self._needed)


def _why(error: Exception) -> tuple[str, str]:
    """Reason, one word for counting, and detail of a refusal."""
    if isinstance(error, DeadLetter):
        return error.reason, error.detail
    return "headers" if isinstance(error, h.HeaderError) else "decode", str(error)
