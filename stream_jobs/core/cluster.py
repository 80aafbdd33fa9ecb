"""What a meter knows of one cluster in its partition: the clocks of three topics, their gaps, and its nodes.

Clock, cuts and idleness are judged per cluster: a node two hours ahead does not silence its neighbours.
"""

from dataclasses import dataclass, field

from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.decode import Reading
from stream_jobs.decode_checks import Columns

from .carry import ClusterCarry, clock_of, gaps_of
from .cuts import ClockIndex, Gaps
from .node import Buffered, NodeState
from .settings import MeterSettings
from .window import DeviceFacts, NodeWindow

TOPICS = (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS)


@dataclass(slots=True)
class ClusterState:
    """Clocks, gaps and nodes of one cluster; `closed_to` and `gone` are what was closed before a restart."""

    name: str
    settings: MeterSettings
    closed_to: dict[tuple[str, str], int]
    gone: set[tuple[str, str]]
    clocks: dict[str, ClockIndex] = field(default_factory=lambda: {topic: ClockIndex() for topic in TOPICS})
    gaps: Gaps = field(default_factory=Gaps)
    heard_us: int = 0
    """Append time of its newest clock record, or of its first record while it has none."""
    nodes: dict[str, NodeState] = field(default_factory=dict)

    def node(self, name: str) -> NodeState:
        """State of a node, made at its first record."""
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = NodeState(self.name, name, gone=(self.name, name) in self.gone)
        return known

    def take_clock(self, topic: str, now_us: int, offset: int) -> bool:
        """Takes a clock record; on gpu-samples it may end the wait for silent nodes. False if it moved nothing."""
        before = self.clocks[topic].now_us
        if not self.clocks[topic].add(now_us, offset) or topic != GPU_SAMPLES:
            return False
        if before is None:
            for node in self.nodes.values():
                node.clip(now_us, self.settings)
        elif now_us - before > self.settings.clock_gap_us:
            self.gaps.add(now_us, now_us - before)
        for node in self.nodes.values():
            since = node.watermark_us if node.watermark_us is not None else node.cut_to_us
            if node.started and now_us - since >= self.settings.idle_us + self.gaps.since(since):
                node.advance(now_us, offset, self.settings)
        return True

    def take_reading(self, headers: Headers, offset: int, columns: tuple[Columns, Columns]) -> str:
        """Takes a reading; says what became of it: `taken`, `duplicate` or `late`."""
        device, process = columns
        node, key = self.node(headers.node), (headers.boot_id, headers.epoch_us)
        if not node.is_new(key, headers.seq):
            return "duplicate"
        if not len(device["read_us"]):
            return "taken"
        start_us, end_us = _touched(device)
        clock_us = self.clocks[GPU_SAMPLES].now_us
        if not node.started:
            node.start(start_us, clock_us, self.settings, self.closed_to.get((self.name, node.node), 0))
        late = end_us <= node.cut_to_us
        if not late and end_us > node.closed_to_us:
            reading = Reading(headers.boot_id, headers.epoch_us, headers.seq, offset, device, process)
            node.buffered.append(Buffered(start_us, end_us, reading))
        node.list_devices(int(device["read_us"].max()), offset, _devices_of(device))
        if key == node.asserting:
            node.assert_complete(headers.complete_to_us, clock_us, offset, self.settings)
        return "late" if late else "taken"

    def next_window(self, node: NodeState) -> NodeWindow | None:
        """The node's oldest open window if all three cuts of it are known."""
        known = node.cuts.get(node.closed_to_us) if node.started else None
        if known is None:
            return None
        at_us = node.closed_to_us + self.settings.window_us + self.settings.lateness_us
        mappings, events = self.clocks[POD_MAPPINGS].first_at(at_us), self.clocks[POD_EVENTS].first_at(at_us)
        if mappings is None or events is None:
            return None
        floors = self._read_from(node.closed_to_us)
        return node.window(node.closed_to_us, (known, mappings, events), floors, self.settings)

    def floors(self) -> tuple[int, int]:
        """Offsets in pod-mappings and pod-events below which no window that may still close can see."""
        clock_us = self.clocks[GPU_SAMPLES].now_us
        if clock_us is None:
            return 0, 0
        horizon_us = clock_us - self.settings.first_window_horizon_us - self.settings.window_us
        return self._read_from(min([horizon_us, *(n.closed_to_us for n in self.nodes.values() if n.started)]))

    def forget(self) -> None:
        """Drops facts and clock entries that no window can need any more."""
        floors = self.floors()
        for node in self.nodes.values():
            node.forget(*floors)
        clock_us = self.clocks[GPU_SAMPLES].now_us or 0
        keep_us = min([clock_us, *(n.closed_to_us for n in self.nodes.values() if n.started)])
        for clock in self.clocks.values():
            clock.forget_before(keep_us - self.settings.reach_back_us - self.settings.first_window_horizon_us)

    def carry(self) -> ClusterCarry:
        """A copy of what gpu-samples alone has made so far."""
        clock = self.clocks[GPU_SAMPLES]
        return ClusterCarry(
            cluster=self.name,
            heard_us=self.heard_us,
            clock_times_us=clock.times_us[-1:],
            clock_offsets=clock.offsets[-1:],
            gap_ends_us=list(self.gaps.ends_us),
            gap_totals_us=list(self.gaps.totals_us),
            nodes=[n.carry() for n in self.nodes.values() if n.started],
        )

    def restore(self, carry: ClusterCarry) -> None:
        """Takes up a carry."""
        self.clocks[GPU_SAMPLES], self.gaps = clock_of(carry), gaps_of(carry)
        for node in carry.nodes:
            self.node(node.node).restore(node, self.closed_to.get((self.name, node.node), node.cut_to_us))

    def _read_from(self, window_start_us: int) -> tuple[int, int]:
        from_us = window_start_us - self.settings.reach_back_us
        return self.clocks[POD_MAPPINGS].read_from(from_us), self.clocks[POD_EVENTS].read_from(from_us)


def _touched(device: Columns) -> tuple[int, int]:
    """The time that a message's device rows touch: when they were read, and what they span, if anything."""
    spans, read = device["span_end_us"] > device["span_start_us"], device["read_us"]
    first = device["span_start_us"][spans].min(initial=read.min())
    return int(first), int(device["span_end_us"][spans].max(initial=read.max() + 1))


def _devices_of(device: Columns) -> list[DeviceFacts]:
    names = dict(zip(device["gpu_uuid"].tolist(), device["gpu_model"].tolist(), strict=True))
    return [DeviceFacts(uuid, names[uuid]) for uuid in sorted(names)]
