"""The log as the oracle reads it: decoded records, clocks, and each node's cuts by one walk."""

from itertools import pairwise

from schemas.clock import decode_clock
from schemas.gaps import decode_gap
from schemas.headers import decode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import decode_node, decode_pod
from schemas.snapshots import decode_snapshot
from stream_jobs.core.settings import MeterSettings
from stream_jobs.decode import decode_reading

TOPICS = (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS)


def parse(log):
    """The log as (offset, headers, content) per topic; what cannot be read is left out, as it goes to dead letters."""
    out = {}
    for topic in TOPICS:
        rows = []
        for record in log[topic]:
            try:
                headers = decode_headers(record.headers)
                content = _content(topic, headers, record.payload)
            except ValueError:
                continue
            rows.append((record.offset, headers, content))
        out[topic] = rows
    return out


def _content(topic, headers, payload):
    if headers.version > (2 if headers.record == "reading" else 1):
        raise ValueError("version")
    if headers.record == "clock":
        return decode_clock(payload, b"", topic, 0)
    readers = {
        (GPU_SAMPLES, "reading"): decode_reading,
        (GPU_SAMPLES, "gap"): decode_gap,
        (POD_MAPPINGS, "gap"): decode_gap,
        (POD_MAPPINGS, "snapshot"): decode_snapshot,
        (POD_EVENTS, "pod"): decode_pod,
        (POD_EVENTS, "node"): decode_node,
    }
    if (topic, headers.record) not in readers:
        raise ValueError("record")
    return readers[topic, headers.record](payload)


def clock_points(rows, cluster):
    """(time, offset) at which the clock of a topic moved forward."""
    points, now = [], None
    for offset, headers, content in rows:
        if headers.record == "clock" and headers.cluster == cluster and (now is None or content.now_us > now):
            now = content.now_us
            points.append((now, offset))
    return points


def first_at(points, time_us):
    """First offset at which the clock had reached a time."""
    return next((offset for now, offset in points if now >= time_us), None)


def read_from(points, time_us):
    """Where reading begins for a time: at its minute's first clock, 0 when the log's first is already at or past it."""
    time_us = time_us // 60_000_000 * 60_000_000
    if not points or points[0][0] >= time_us:
        return 0
    offset = first_at(points, time_us)
    return points[-1][1] if offset is None else offset


def rule_of(time_us, s):
    """The rule of windows that holds at a time."""
    told = [(0, s.window_us, s.lateness_us), *((c.effective_us, c.window_us, c.lateness_us) for c in s.changes)]
    return [rule for rule in told if rule[0] <= max(time_us, 0)][-1]


def window_of(time_us, s):
    """Start of the window that holds a time."""
    return time_us - time_us % rule_of(time_us, s)[1]


def window_end(start_us, s):
    """End of a window."""
    return start_us + rule_of(start_us, s)[1]


def due(start_us, s):
    """When a window is due: after its end and lateness, and with the last window of each rule before."""
    _, size, lateness = rule_of(start_us, s)
    told = [(0, s.window_us, s.lateness_us), *((c.effective_us, c.window_us, c.lateness_us) for c in s.changes)]
    ends = [after[0] + before[2] for before, after in pairwise(told) if after[0] <= start_us]
    return max([start_us + size + lateness, *ends])


def windows_from(start_us, end_us, s):
    """Starts of windows from one on."""
    while start_us < end_us:
        yield start_us
        start_us = window_end(start_us, s)


def touched(device, i):
    """The time that a device row touches: when it was read, and what it spans, if anything."""
    start, end, read = (int(device[name][i]) for name in ("span_start_us", "span_end_us", "read_us"))
    return (min(start, read), max(end, read + 1)) if end > start else (read, read + 1)


def message_touches(device):
    """The time that a message touches: from the first to the last that its rows do."""
    rows = [touched(device, i) for i in range(len(device["read_us"]))]
    return min(first for first, _ in rows), max(last for _, last in rows)


class NodeWalk:
    """One node's cuts, device lists and boots, walking gpu-samples once from the beginning."""

    def __init__(self, rows, cluster, node, settings: MeterSettings):
        self.s, self.key_of_node = settings, (cluster, node)
        self.clock, self.gaps, self.mark, self.asserting, self.cut_to = None, [], None, None, None
        self.cuts, self.devices, self.boots, self.seen, self.first = {}, [], [], set(), None
        for row in rows:
            self.take(*row)

    def take(self, offset, headers, content):
        """Takes the next record of gpu-samples, of whatever node."""
        if headers.record == "clock" and headers.cluster == self.key_of_node[0]:
            self.on_clock(offset, content.now_us, content.override)
        elif headers.record == "reading" and (headers.cluster, headers.node) == self.key_of_node:
            self.on_reading(offset, headers, content[0])

    def advance(self, to, offset):
        """Cuts every window whose end and lateness lie at or before a time."""
        while due(self.cut_to, self.s) <= to:
            self.cuts[self.cut_to] = offset
            self.cut_to = window_end(self.cut_to, self.s)

    def clipped(self, first):
        """A first window within the horizon around the clock."""
        if self.clock is None:
            return first
        earliest = window_of(self.clock - self.s.first_window_horizon_us, self.s)
        return min(max(first, earliest), window_of(self.clock, self.s))

    def on_clock(self, offset, now, override):
        """A clock that moves forward may end the wait for the node; one that a worker wrote is a gap."""
        if self.clock is not None and now <= self.clock:
            return
        first, before, self.clock = self.clock is None, self.clock, now
        if first and self.cut_to is not None:
            self.first = self.cut_to = self.clipped(self.cut_to)
        if not first and (override or now - before > self.s.clock_gap_us):
            self.gaps.append((now, now - before))
        if self.cut_to is not None:
            since = self.cut_to if self.mark is None else max(self.mark, self.first)
            if now - since >= self.s.idle_us + sum(length for end, length in self.gaps if end > since):
                self.advance(now, offset)

    def on_reading(self, offset, headers, device):
        """A reading that is no duplicate lists devices and, if its epoch is the newest, asserts."""
        key = (headers.boot_id, headers.epoch_us)
        if (*key, headers.seq) in self.seen:
            return
        if key not in {k[:2] for k in self.seen}:
            if key[0] not in self.boots:
                self.boots.append(key[0])
                self.asserting = key
            elif key[0] == self.asserting[0] and key[1] > self.asserting[1]:
                self.asserting = key
        self.seen.add((*key, headers.seq))
        if not len(device["read_us"]):
            return
        if self.cut_to is None:
            first = message_touches(device)[0]
            self.first = self.cut_to = self.clipped(window_of(first, self.s))
        self.devices.append((int(device["read_us"].max()), offset, set(device["gpu_uuid"])))
        if key == self.asserting and self.clock is not None:
            asserted = min(headers.complete_to_us, self.clock + self.s.ahead_us)
            if self.mark is None or asserted > self.mark:
                self.mark = asserted
                self.advance(asserted, offset + 1)
