"""The meter of one partition: fed with records of three topics in any interleaving, it closes windows at their cuts.

Owns event time, cuts and progress; must not know Kafka, clocks or where rows go. Laws 2, 3, 6 and 7 of DESIGN
section 4 are tested on it in tests/property/test_meter.py and test_crash.py against a pure function of the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from schemas import headers as h
from schemas.clock import decode_clock
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import decode_node, decode_pod
from schemas.snapshots import decode_snapshot
from stream_jobs.decode import Columns, Reading, decode_reading

from .carry import Carry, ClusterCarry, Progress, clock_of, decode_carry, encode_carry, gaps_of
from .close import close_windows
from .cuts import ClockIndex, Gaps
from .identity import Directory
from .node import Buffered, NodeState
from .settings import MeterSettings, Source
from .window import DeviceFacts, NodeWindow

TOPICS = (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS)
MAX_WINDOWS_A_CALL = 500


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as the log has it."""

    offset: int
    append_us: int
    headers: list[tuple[str, bytes]]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that can never succeed, and why."""

    topic: str
    offset: int
    reason: str
    detail: str
    record: LogRecord


@dataclass(slots=True)
class _Cluster:
    name: str
    clocks: dict[str, ClockIndex] = field(default_factory=lambda: {topic: ClockIndex() for topic in TOPICS})
    gaps: Gaps = field(default_factory=Gaps)
    nodes: dict[str, NodeState] = field(default_factory=dict)

    def node(self, name: str) -> NodeState:
        return self.nodes.setdefault(name, NodeState(self.name, name))


class PartitionMeter:
    """Meter of one partition of the three input topics."""

    def __init__(self, settings: MeterSettings, source: Source, progress: Progress | None = None) -> None:
        """A fresh meter, or one that goes on from a progress record."""
        self.settings, self.source = settings, source
        self.position = dict.fromkeys(TOPICS, 0)
        self.counts = dict.fromkeys(
            ("records", "duplicates", "late_readings", "refused", "windows", "rows", "clocks_ignored", "violations"), 0
        )
        self._clusters: dict[str, _Cluster] = {}
        self._closed_to: dict[tuple[str, str], int] = {}
        self._checkpoints: list[Carry] = []
        self._checkpoint_us = -(1 << 62)
        self._directories: dict[tuple[str, str], tuple[list[int], Directory]] = {}
        if progress is not None:
            self._restore(progress)

    def feed(self, topic: str, records: Sequence[LogRecord]) -> list[Refused]:
        """Takes records of a topic in offset order; ones below the position were seen and are passed over."""
        refused: list[Refused] = []
        for record in records:
            if record.offset < self.position[topic]:
                continue
            self.position[topic] = record.offset + 1
            self.counts["records"] += 1
            try:
                self._take(topic, record)
            except ValueError as error:
                self.counts["refused"] += 1
                refused.append(Refused(topic, record.offset, type(error).__name__, str(error), record))
        return refused

    def close_ready(self) -> pa.Table | None:
        """Rows of windows whose three cuts are known, a bounded number a call; None when there are none."""
        ready: list[NodeWindow] = []
        closed = 0
        for cluster in self._clusters.values():
            for node in cluster.nodes.values():
                while closed < MAX_WINDOWS_A_CALL and (window := self._next_window(cluster, node)) is not None:
                    closed += 1
                    if not _deleted(window):
                        ready.append(window)
                    node.cuts.pop(node.closed_to_us, None)
                    node.closed_to_us += self.settings.window_us
        if closed:
            self._forget()
        if not ready:
            return None
        table = close_windows(ready, self.source, self._directory)
        self.counts["windows"] += len(ready)
        self.counts["rows"] += table.num_rows
        self.counts["violations"] += table.column("holder_kind").to_pylist().count("violation")
        return table

    def progress(self) -> Progress | None:
        """Where to begin after a restart, with the newest carry at or below what is needed; None before the first."""
        needed = self.position[GPU_SAMPLES]
        for node in self._nodes():
            needed = min([needed, *(b.reading.offset for b in node.buffered)])
        usable = [c for c in self._checkpoints if c.samples_offset <= needed]
        if not usable:
            return None
        carry = usable[-1]
        self._checkpoints = self._checkpoints[self._checkpoints.index(carry) :]
        carry.closed_to_us = sorted((n.cluster, n.node, n.closed_to_us) for n in self._nodes() if n.started)
        floors = [self._floors(cluster) for cluster in self._clusters.values()]
        offsets = {
            GPU_SAMPLES: carry.samples_offset,
            POD_MAPPINGS: min([self.position[POD_MAPPINGS], *(f[0] for f in floors)]),
            POD_EVENTS: min([self.position[POD_EVENTS], *(f[1] for f in floors)]),
        }
        return Progress(offsets, encode_carry(carry))

    def metrics(self) -> dict[str, int]:
        """Counts since start, and how much is held open."""
        nodes = self._nodes()
        clocks = [c.clocks[GPU_SAMPLES].now_us or 0 for c in self._clusters.values()]
        return self.counts | {
            "nodes": len(nodes),
            "buffered_readings": sum(len(n.buffered) for n in nodes),
            "clock_us": min(clocks, default=0),
            "closed_to_us": min((n.closed_to_us for n in nodes if n.started), default=0),
        }

    def _nodes(self) -> list[NodeState]:
        return [node for cluster in self._clusters.values() for node in cluster.nodes.values()]

    def _take(self, topic: str, record: LogRecord) -> None:
        headers = h.decode_headers(record.headers)
        if headers.version > h.CURRENT_VERSION:
            raise ValueError(f"version {headers.version} of {headers.record}, this reader knows {h.CURRENT_VERSION}")
        if headers.record == h.CLOCK:
            return self._clock(topic, record)
        cluster = self._clusters.setdefault(headers.cluster, _Cluster(headers.cluster))
        if topic == GPU_SAMPLES and headers.record == h.READING:
            return self._reading(cluster, headers, record)
        if topic == POD_MAPPINGS and headers.record == h.SNAPSHOT:
            snapshot = decode_snapshot(record.payload)
            return cluster.node(headers.node).take_snapshot(record.offset, (headers.boot_id, headers.epoch_us), snapshot)
        if topic == POD_EVENTS and headers.record == h.POD_EVENT:
            cluster.node(headers.node).pods.append((record.offset, decode_pod(record.payload)))
            return None
        if topic == POD_EVENTS and headers.record == h.NODE_EVENT:
            cluster.node(headers.node).records.append((record.offset, decode_node(record.payload)))
            return None
        raise ValueError(f"record {headers.record!r} does not belong on {topic}")

    def _clock(self, topic: str, record: LogRecord) -> None:
        clock = decode_clock(record.payload, self.settings.clock_key, topic, self.source.partition)
        cluster = self._clusters.setdefault(clock.cluster, _Cluster(clock.cluster))
        if not self.settings.simulated_time and clock.now_us > record.append_us + self.settings.ahead_us:
            self.counts["clocks_ignored"] += 1
            return
        before = cluster.clocks[topic].now_us
        if not cluster.clocks[topic].add(clock.now_us, record.offset) or topic != GPU_SAMPLES:
            return
        if before is None:
            for node in cluster.nodes.values():
                node.clip(clock.now_us, self.settings)
        elif clock.now_us - before > self.settings.clock_gap_us:
            cluster.gaps.add(clock.now_us, clock.now_us - before)
        for node in cluster.nodes.values():
            since = node.watermark_us if node.watermark_us is not None else node.cut_to_us
            if node.started and clock.now_us - since >= self.settings.idle_us + cluster.gaps.since(since):
                node.advance(clock.now_us, record.offset, self.settings)
        if clock.now_us - self._checkpoint_us >= self.settings.checkpoint_us:
            self._checkpoint_us = clock.now_us
            self._checkpoints.append(self._carry())

    def _reading(self, cluster: _Cluster, headers: h.Headers, record: LogRecord) -> None:
        device, process = decode_reading(record.payload)
        node, key = cluster.node(headers.node), (headers.boot_id, headers.epoch_us)
        if not node.is_new(key, headers.seq):
            self.counts["duplicates"] += 1
            return
        if not len(device["read_us"]):
            return
        start_us, end_us = _touched(device)
        clock_us = cluster.clocks[GPU_SAMPLES].now_us
        if not node.started:
            node.start(start_us, clock_us, self.settings, self._closed_to.get((cluster.name, node.node), 0))
        if end_us <= node.cut_to_us:
            self.counts["late_readings"] += 1
        elif end_us > node.closed_to_us:
            reading = Reading(headers.boot_id, headers.epoch_us, headers.seq, record.offset, device, process)
            node.buffered.append(Buffered(start_us, end_us, reading))
        if key != node.asserting:
            return
        node.devices = _device_list(device, node.devices)
        if clock_us is not None:
            asserted = min(headers.complete_to_us, clock_us + self.settings.ahead_us)
            if node.watermark_us is None or asserted > node.watermark_us:
                node.watermark_us = asserted
                node.advance(asserted, record.offset + 1, self.settings)

    def _next_window(self, cluster: _Cluster, node: NodeState) -> NodeWindow | None:
        known = node.cuts.get(node.closed_to_us) if node.started else None
        if known is None:
            return None
        at_us = node.closed_to_us + self.settings.window_us + self.settings.lateness_us
        mappings, events = cluster.clocks[POD_MAPPINGS].first_at(at_us), cluster.clocks[POD_EVENTS].first_at(at_us)
        if mappings is None or events is None:
            return None
        from_us = node.closed_to_us - self.settings.reach_back_us
        floors = (cluster.clocks[POD_MAPPINGS].read_from(from_us), cluster.clocks[POD_EVENTS].read_from(from_us))
        return node.window(node.closed_to_us, (known[0], mappings, events), floors, self.settings.window_us)

    def _floors(self, cluster: _Cluster) -> tuple[int, int]:
        """Offsets in pod-mappings and pod-events below which no window that may still close can see."""
        clock_us = cluster.clocks[GPU_SAMPLES].now_us
        if clock_us is None:
            return 0, 0
        open_us = [n.closed_to_us for n in cluster.nodes.values() if n.started]
        oldest_us = min([*open_us, clock_us - self.settings.first_window_horizon_us - self.settings.window_us])
        from_us = oldest_us - self.settings.reach_back_us
        return cluster.clocks[POD_MAPPINGS].read_from(from_us), cluster.clocks[POD_EVENTS].read_from(from_us)

    def _forget(self) -> None:
        for cluster in self._clusters.values():
            floors = self._floors(cluster)
            for node in cluster.nodes.values():
                node.forget(*floors)
            clock_us = cluster.clocks[GPU_SAMPLES].now_us or 0
            keep_us = min([clock_us, *(n.closed_to_us for n in cluster.nodes.values() if n.started)])
            for clock in cluster.clocks.values():
                clock.forget_before(keep_us - self.settings.reach_back_us - self.settings.first_window_horizon_us)

    def _directory(self, window: NodeWindow) -> Directory:
        """The pods of a window's node, made anew only when they are others than at its last window."""
        key, identity = (window.cluster, window.node), [id(pod) for pod in window.pods]
        known = self._directories.get(key)
        if known is None or known[0] != identity:
            known = self._directories[key] = (identity, Directory(window.pods))
        return known[1]

    def _carry(self) -> Carry:
        clusters = [
            ClusterCarry(
                cluster=c.name,
                clock_times_us=list(c.clocks[GPU_SAMPLES].times_us[-1:]),
                clock_offsets=list(c.clocks[GPU_SAMPLES].offsets[-1:]),
                gap_ends_us=list(c.gaps.ends_us),
                gap_totals_us=list(c.gaps.totals_us),
                nodes=[n.carry() for n in c.nodes.values() if n.started],
            )
            for c in self._clusters.values()
        ]
        return Carry(self.position[GPU_SAMPLES], clusters, [])

    def _restore(self, progress: Progress) -> None:
        carry = decode_carry(progress.carry)
        self.position = {topic: progress.offsets[topic] for topic in TOPICS}
        self._closed_to = {(cluster, node): closed for cluster, node, closed in carry.closed_to_us}
        for saved in carry.clusters:
            cluster = self._clusters[saved.cluster] = _Cluster(saved.cluster)
            cluster.clocks[GPU_SAMPLES], cluster.gaps = clock_of(saved), gaps_of(saved)
            for node in saved.nodes:
                closed = self._closed_to.get((saved.cluster, node.node), node.cut_to_us)
                cluster.node(node.node).restore(node, closed)
        self._checkpoints = [carry]


def _touched(device: Columns) -> tuple[int, int]:
    """The time that a message's device rows touch; a row without a span touches its reading time."""
    start = min(int(device["span_start_us"].min()), int(device["read_us"].min()))
    return start, max(int(device["span_end_us"].max()), int(device["read_us"].max()) + 1)


def _device_list(device: Columns, known: list[DeviceFacts]) -> list[DeviceFacts]:
    names = dict(zip(device["gpu_uuid"].tolist(), device["gpu_model"].tolist(), strict=True))
    listed = [DeviceFacts(uuid, names[uuid]) for uuid in sorted(names)]
    return known if listed == known else listed


def _deleted(window: NodeWindow) -> bool:
    record = window.node_record
    return record is not None and record.deleted_us is not None and record.deleted_us <= window.start_us and not window.readings
