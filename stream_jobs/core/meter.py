"""The meter of one partition: fed with records of three topics in any interleaving, it closes windows at their cuts.

Owns event time, cuts and progress; must not know Kafka, clocks or where rows go. Laws 2, 3, 6 and 7 of
tests/README.md are tested on it in tests/property/test_meter.py and test_crash.py against a pure function of the log.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas import headers as h
from schemas.clock import decode_clock
from schemas.gaps import decode_gap
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import decode_node, decode_pod
from schemas.snapshots import decode_snapshot
from stream_jobs.decode import DecodeError, decode_readings
from stream_jobs.decode_checks import Columns
from stream_jobs.errors import DeadLetter

from .carry import Carry, Progress, decode_carry, encode_carry
from .close import close_windows
from .cluster import TOPICS, ClusterState
from .figures import meter_figures
from .identity import Directory
from .node import NodeState
from .settings import MeterSettings, Source
from .window import NodeWindow, SeenGap

MAX_WINDOWS_A_CALL = 500
_COUNTS = (
    "records", "refused", "readings_taken", "readings_duplicate", "readings_late", "late_us", "clocks_ignored",
    "windows", "rows", "violations", "clusters_forgotten", "gaps",
)  # fmt: skip


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


class PartitionMeter:
    """Meter of one partition of the three input topics."""

    def __init__(self, settings: MeterSettings, source: Source, progress: Progress | None = None) -> None:
        """A fresh meter, or one that goes on from a progress record."""
        self.settings, self.source = settings, source
        self.position = dict.fromkeys(TOPICS, 0)
        self.counts = dict.fromkeys(_COUNTS, 0)
        self._clusters: dict[str, ClusterState] = {}
        self._closed_to: dict[tuple[str, str], int] = {}
        self._gone: set[tuple[str, str]] = set()
        self._checkpoints: list[Carry] = []
        self._checkpoint_us = -(1 << 62)
        self._directories: dict[tuple[str, str], tuple[list[int], Directory]] = {}
        if progress is not None:
            self._restore(progress)

    def feed(self, topic: str, records: Sequence[LogRecord]) -> list[Refused]:
        """Takes records of a topic in offset order; ones below the position were seen and are passed over."""
        refused: list[Refused] = []
        new = [record for record in records if record.offset >= self.position[topic]]
        readings = _decoded_readings(new) if topic == GPU_SAMPLES else {}
        for record in new:
            self.position[topic] = record.offset + 1
            self.counts["records"] += 1
            try:
                self._take(topic, record, readings.get(record.offset))
            except (DeadLetter, ValueError, RecursionError) as error:
                self.counts["refused"] += 1
                refused.append(Refused(topic, record.offset, *_why(error), record))
        return refused

    def close_ready(self) -> pa.Table | None:
        """Rows of windows whose three cuts are known, a bounded number a call; None when there are none."""
        ready: list[NodeWindow] = []
        closed = 0
        for cluster in self._clusters.values():
            for node in cluster.nodes.values():
                while closed < MAX_WINDOWS_A_CALL and (window := cluster.next_window(node)) is not None:
                    closed += 1
                    if not node.is_absent(window):
                        ready.append(window)
                    node.cuts.pop(node.closed_to_us, None)
                    node.closed_to_us += self.settings.window_us
        for cluster in self._clusters.values() if closed else ():
            cluster.forget()
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
        # A node that a re-read has not met again yet stays closed as far as it was.
        closed = self._closed_to | {(n.cluster, n.node): n.closed_to_us for n in self._nodes() if n.started}
        carry.closed_to_us = sorted((cluster, node, to_us) for (cluster, node), to_us in closed.items())
        carry.gone = sorted((n.cluster, n.node) for n in self._nodes() if n.gone)
        floors = [cluster.floors() for cluster in self._clusters.values()]
        offsets = {
            GPU_SAMPLES: carry.samples_offset,
            POD_MAPPINGS: min([self.position[POD_MAPPINGS], *(f[0] for f in floors)]),
            POD_EVENTS: min([self.position[POD_EVENTS], *(f[1] for f in floors)]),
        }
        return Progress(offsets, encode_carry(carry))

    def metrics(self) -> dict[str, int]:
        """Counts since start, and how much is held open."""
        return self.counts | meter_figures(self._clusters.values(), self.settings)

    def _nodes(self) -> list[NodeState]:
        return [node for cluster in self._clusters.values() for node in cluster.nodes.values()]

    def _take(self, topic: str, record: LogRecord, reading: tuple[Columns, Columns] | DecodeError | None) -> None:
        headers = h.decode_headers(record.headers)
        if headers.version > h.CURRENT_VERSION:
            text = f"version {headers.version} of {headers.record}, this reader knows {h.CURRENT_VERSION}"
            raise DeadLetter("version", text)
        if headers.record == h.CLOCK:
            return self._clock(topic, record)
        cluster = self._cluster(headers.cluster, record.append_us)
        if isinstance(reading, DecodeError):
            raise reading
        if reading is not None:
            read_us = max(int(reading[0][name].max(initial=0)) for name in ("read_us", "span_end_us"))
            self._refuse_far_future(headers.record, read_us, record.append_us)
            became = cluster.take_reading(headers, record.offset, reading)
            self.counts[f"readings_{became}"] += 1
            if became == "late":
                self.counts["late_us"] += int((reading[0]["span_end_us"] - reading[0]["span_start_us"]).sum())
            return None
        if topic == POD_MAPPINGS and headers.record == h.SNAPSHOT:
            snapshot = decode_snapshot(record.payload)
            return cluster.node(headers.node).take_snapshot(
                record.offset, (headers.boot_id, headers.epoch_us), snapshot
            )
        if topic in (GPU_SAMPLES, POD_MAPPINGS) and headers.record == h.GAP:
            gap = decode_gap(record.payload)
            self._refuse_far_future(headers.record, gap.end_us, record.append_us)
            self.counts["gaps"] += 1
            return cluster.node(headers.node).take_gap(topic, SeenGap(record.offset, gap.start_us, gap.end_us))
        if topic == POD_EVENTS and headers.record == h.POD_EVENT:
            cluster.node(headers.node).pods.append((record.offset, decode_pod(record.payload)))
            return None
        if topic == POD_EVENTS and headers.record == h.NODE_EVENT:
            cluster.node(headers.node).records.append((record.offset, decode_node(record.payload)))
            return None
        raise DeadLetter("record", f"record {headers.record!r} does not belong on {topic}")

    def _clock(self, topic: str, record: LogRecord) -> None:
        try:
            clock = decode_clock(record.payload, self.settings.clock_key, topic, self.source.partition)
        except ValueError as error:
            raise DeadLetter("clock", str(error)) from error
        ahead_us = 0 if self.settings.simulated_time else clock.now_us - record.append_us
        if not -self.settings.reach_us <= ahead_us <= self.settings.ahead_us:
            self.counts["clocks_ignored"] += 1
            return
        cluster = self._cluster(clock.cluster, record.append_us)
        cluster.heard_us = record.append_us
        moved = cluster.take_clock(topic, clock.now_us, record.offset)
        self._forget_lost_clusters(record.append_us)
        if moved and clock.now_us - self._checkpoint_us >= self.settings.checkpoint_us:
            self._checkpoint_us = clock.now_us
            clusters = [c.carry() for c in self._clusters.values()]
            self._checkpoints.append(Carry(self.position[GPU_SAMPLES], clusters, []))

    def _refuse_far_future(self, record: str, read_us: int, append_us: int) -> None:
        """Refuses what no window would see for days: it would be held, and progress would wait for it all the while."""
        ahead_us = 0 if self.settings.simulated_time else read_us - append_us
        if ahead_us > self.settings.reading_ahead_us:
            raise ValueError(
                f"{record} at {read_us} us came {ahead_us // 1_000_000} s before its time by the broker's clock "
                f"({append_us} us), at most {self.settings.reading_ahead_us // 1_000_000} s: is the node's clock wrong?"
            )

    def _cluster(self, name: str, heard_us: int) -> ClusterState:
        known = self._clusters.get(name)
        if known is None:
            known = self._clusters[name] = ClusterState(
                name, self.settings, self._closed_to, self._gone, heard_us=heard_us
            )
        return known

    def _forget_lost_clusters(self, append_us: int) -> None:
        """Drops clusters that have had no clock for the reach, e.g. a mistyped name, lest progress waits for them."""
        lost = [n for n, c in self._clusters.items() if append_us - c.heard_us > self.settings.reach_us]
        for name in lost:
            del self._clusters[name]
            self.counts["clusters_forgotten"] += 1

    def _directory(self, window: NodeWindow) -> Directory:
        """The pods of a window's node, made anew only when they are others than at its last window."""
        key, identity = (window.cluster, window.node), [id(pod) for pod in window.pods]
        known = self._directories.get(key)
        if known is None or known[0] != identity:
            known = self._directories[key] = (identity, Directory(window.pods))
        return known[1]

    def _restore(self, progress: Progress) -> None:
        carry = decode_carry(progress.carry)
        self.position = {topic: progress.offsets[topic] for topic in TOPICS}
        self._closed_to = {(cluster, node): closed for cluster, node, closed in carry.closed_to_us}
        self._gone = set(carry.gone)
        for saved in carry.clusters:
            self._cluster(saved.cluster, saved.heard_us).restore(saved)
        self._checkpoints = [carry]


def _why(error: Exception) -> tuple[str, str]:
    """Reason, one word for counting, and detail of a refusal."""
    if isinstance(error, DeadLetter):
        return error.reason, error.detail
    return "headers" if isinstance(error, h.HeaderError) else "decode", str(error)


def _decoded_readings(records: Sequence[LogRecord]) -> dict[int, tuple[Columns, Columns] | DecodeError]:
    """What the readings among records hold, by offset; decoded together, since the cost is per batch."""
    wanted = ("record", h.READING.encode())
    readings = [record for record in records if wanted in record.headers]
    return dict(zip((r.offset for r in readings), decode_readings([r.payload for r in readings]), strict=True))
