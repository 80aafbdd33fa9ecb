"""The oracle of revisions: a window as of each whole minute of the clock at which a late record showed itself."""

from itertools import pairwise

from tests.property.oracle import first_sight, window_rows, windows_of
from tests.property.oracle_log import (
    TOPICS,
    NodeWalk,
    clock_points,
    due,
    first_at,
    message_touches,
    parse,
    read_from,
    window_end,
    window_of,
    windows_from,
)

MINUTE = 60_000_000


def revisions_of(log, s):
    """{(node, window): [(minute, rows as of it, gap)]}, the first result first, without rows where it was never made.

    `gap` says whether a gap of a spool touches the window as of that minute.
    """
    topics, out = parse(log), {}
    first = {(c, n, w): (cuts, floors) for c, n, w, cuts, floors, _, _ in windows_of(topics, s)}
    for cluster, node in sorted({(h.cluster, h.node) for _, h, _ in topics[TOPICS[0]] if h.record == "reading"}):
        walk = NodeWalk(topics[TOPICS[0]], cluster, node, s)
        late = LateRecords(topics, cluster, node, s)
        if walk.cut_to is None:
            continue
        low = min((start for kind, _, start, *_ in late.records if kind == 0), default=walk.cut_to)
        for window in windows_from(window_of(low, s), walk.cut_to, s):
            known = first.get((cluster, node, window))
            if known is None and window in walk.cuts:
                continue
            cuts, floors = known or late.cuts_before_the_first(window)
            if None in cuts:
                continue
            minutes = sorted({m for m, _, _ in late.touching(window, cuts)})
            states = []
            if minutes:
                for minute in [0, *minutes]:
                    states.append((minute, *_state(topics, cluster, node, window, cuts, floors, walk, late, minute, s)))
                if known is None:
                    states[0] = (0, {}, False)
                out[node, window] = states
    return out


def _state(topics, cluster, node, window, cuts, floors, walk, late, minute, s):
    shown = {(topic, offset) for m, topic, offset in late.touching(window, cuts) if m <= minute}
    plain = first_sight(cuts, floors)

    def sees(topic, offset):
        return plain(topic, offset) or (topic, offset) in shown

    known = [e for e in walk.devices if e[0] < window_end(window, s) and sees(0, e[1])]
    devices = max(known, key=lambda e: e[:2])[2] if known else set()
    gap = any(
        sees(kind, offset) and start < window_end(window, s) and end > window
        for kind, offset, start, end in late.records
        if (kind, offset) in late.gaps
    )
    return window_rows(topics, cluster, node, window, sees, devices, walk.boots, s), gap


class LateRecords:
    """Every record of a node with the time it speaks of, and the minute that shows it."""

    def __init__(self, topics, cluster, node, s):
        self.s, self.records, self.gaps = s, [], set()
        self.points = [clock_points(topics[t], cluster) for t in TOPICS]
        self.last_minute = min((p[-1][0] // MINUTE * MINUTE if p else 0) for p in self.points)
        seen, newest = set(), {}
        first_reading = None
        for kind, name in enumerate(TOPICS):
            for offset, h, content in topics[name]:
                if (h.cluster, h.node) != (cluster, node) or h.record == "clock":
                    continue
                key = (h.boot_id, h.epoch_us, h.seq)
                if h.record == "reading":
                    if key in seen or not len(content[0]["read_us"]):
                        seen.add(key)
                        continue
                    seen.add(key)
                    first_reading = offset if first_reading is None else first_reading
                if kind == 0 and first_reading is None:
                    continue
                span = self._span(h.record, content, newest, offset)
                if h.record == "gap":
                    self.gaps.add((kind, offset))
                if span:
                    self.records.append((kind, offset, *span))

    def _span(self, record, content, newest, offset):
        if record == "reading":
            return message_touches(content[0])
        if record == "gap":
            return content.start_us, content.end_us + 1
        if record == "snapshot":
            return content.taken_us - min(15_000_000, self.s.lateness_us // 2), 1 << 62
        if record == "node":
            before = newest.get("node")
            newest["node"] = content
            return (content.created_us, 1 << 62) if before is None else None
        before = newest.get(content.uid)
        if before is None or (before[0], before[1]) <= (content.seen_us, offset):
            newest[content.uid] = (content.seen_us, offset, content)
        start = self._pod_start(before[2] if before else None, content)
        return None if start is None else (start, 1 << 62)

    @staticmethod
    def _pod_start(old, new):
        runs = {(c.name, r.container_id): r for c in new.containers for r in c.runs}
        if not runs and new.deleted_us is None:
            return None
        if old is None:
            return min([new.created_us, *(r.started_us for r in runs.values())])
        if new.seen_us < old.seen_us:
            return None
        moments = set()
        olds = {(c.name, r.container_id): r for c in old.containers for r in c.runs}
        for key in runs.keys() | olds.keys():
            a, b = olds.get(key), runs.get(key)
            if (a and a.started_us) != (b and b.started_us):
                moments |= {r.started_us for r in (a, b) if r}
            if (a and a.finished_us) != (b and b.finished_us):
                moments |= {r.finished_us for r in (a, b) if r and r.finished_us is not None}
        if old.deleted_us != new.deleted_us:
            moments |= {t for t in (old.deleted_us, new.deleted_us) if t is not None}
        return min(moments, default=None)

    def cuts_before_the_first(self, window):
        """Cuts and floors of a window before the node's first: no reading is below its cut."""
        at = due(window, self.s)
        others = [first_at(p, at) for p in self.points[1:]]
        return (0, *others), [read_from(p, window - self.s.reach_back_us) for p in self.points[1:]]

    def touching(self, window, cuts):
        """(minute, topic, offset) of the late records that touch a window, within the reach and the clocks."""
        for kind, offset, start, end in self.records:
            if start < window_end(window, self.s) and end > window and offset >= cuts[kind]:
                minute = self._minute(kind, offset)
                within = minute - window_end(window, self.s) <= self.s.reach_us
                if minute <= self.last_minute and within:
                    yield minute, kind, offset

    def _minute(self, kind, offset):
        points = self.points[kind]
        below = [now for now, o in points if o < offset]
        clock = below[-1] if below else points[0][0]
        return (clock // MINUTE + 1) * MINUTE


def changes(states):
    """(minute, {gpu}, rows before, rows after) for every minute of a window."""
    for (_, before, _), (minute, after, _) in pairwise(states):
        gpus = {k[1] for k in before.keys() | after.keys() if before.get(k) != after.get(k)}
        yield minute, gpus, before, after
