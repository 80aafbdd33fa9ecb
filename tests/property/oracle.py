"""The slow, obvious meter: rows as a pure function of the whole log, one record and one fraction at a time."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from schemas.clock import decode_clock
from schemas.headers import decode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import decode_node, decode_pod
from schemas.samples import RING_OVERFLOW
from schemas.snapshots import decode_snapshot
from stream_jobs.core.settings import MeterSettings
from stream_jobs.decode import decode_reading

TOPICS = (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS)
MEASURES = ("used", "charged", "energy", "resident", "memory", "hot")


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
    if headers.version > 1:
        raise ValueError("version")
    if headers.record == "clock":
        return decode_clock(payload, b"", topic, 0).now_us
    readers = {
        (GPU_SAMPLES, "reading"): decode_reading,
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
        if headers.record == "clock" and headers.cluster == cluster and (now is None or content > now):
            now = content
            points.append((now, offset))
    return points


def first_at(points, time_us):
    """First offset at which the clock had reached a time."""
    return next((offset for now, offset in points if now >= time_us), None)


def read_from(points, time_us):
    """Where reading begins for a time: 0 when the first clock is already at or past it."""
    if not points or points[0][0] >= time_us:
        return 0
    offset = first_at(points, time_us)
    return points[-1][1] if offset is None else offset


def node_cuts(rows, cluster, node, s: MeterSettings):
    """Cut of every window of a node, its device lists and boots, walking gpu-samples once from the beginning."""
    clock, gaps, mark, asserting, boots = None, [], None, None, []
    cut_to, cuts, devices, seen = None, {}, [], set()

    def advance(to, offset):
        nonlocal cut_to
        while cut_to + s.window_us + s.lateness_us <= to:
            cuts[cut_to] = offset
            cut_to += s.window_us

    def clipped(first, now):
        if now is None:
            return first
        latest = now // s.window_us * s.window_us
        return min(max(first, (now - s.first_window_horizon_us) // s.window_us * s.window_us), latest)

    for offset, headers, content in rows:
        if headers.cluster != cluster:
            continue
        if headers.record == "clock":
            if clock is not None and content <= clock:
                continue
            if clock is None and cut_to is not None:
                cut_to = clipped(cut_to, content)
            if clock is not None and content - clock > s.clock_gap_us:
                gaps.append((content, content - clock))
            clock = content
            if cut_to is not None:
                since = cut_to if mark is None else mark
                if clock - since >= s.idle_us + sum(length for end, length in gaps if end > since):
                    advance(clock, offset)
            continue
        if headers.node != node:
            continue
        key = (headers.boot_id, headers.epoch_us)
        if (*key, headers.seq) in seen:
            continue
        if key not in {k[:2] for k in seen}:
            if key[0] not in boots:
                boots.append(key[0])
                asserting = key
            elif key[0] == asserting[0] and key[1] > asserting[1]:
                asserting = key
        seen.add((*key, headers.seq))
        device = content[0]
        if not len(device["read_us"]):
            continue
        if cut_to is None:
            first = min(int(device["span_start_us"].min()), int(device["read_us"].min()))
            cut_to = clipped(first // s.window_us * s.window_us, clock)
        devices.append((int(device["read_us"].max()), offset, set(device["gpu_uuid"])))
        if key != asserting:
            continue
        if clock is not None:
            asserted = min(headers.complete_to_us, clock + s.ahead_us)
            if mark is None or asserted > mark:
                mark = asserted
                advance(mark, offset + 1)
    return cuts, devices, boots


def divide(span, count, total, rows):
    """Shares of a reading in its fixed order: [(process row or name, us)]; rows are (row, util or None)."""
    points = Fraction(total, count)
    named = {row: Fraction(util) for row, util in rows if util is not None}
    sum_points = sum(named.values())
    if sum_points > points:
        named = {row: util * points / sum_points for row, util in named.items()}
    elif named:
        more = min(Fraction(1), (points - sum_points) / len(named))
        named = {row: util + more for row, util in named.items()}
    parts = [(row, named.get(row, Fraction(0))) for row, _ in rows]
    parts += [("unattributed", points - sum(named.values())), ("idle", 100 - points)]
    exact = [span * share / 100 for _, share in parts]
    floors = [math.floor(x) for x in exact]
    order = sorted(range(len(parts)), key=lambda i: (floors[i] - exact[i], i))
    for i in order[: span - sum(floors)]:
        floors[i] += 1
    return [(row, us) for (row, _), us in zip(parts, floors, strict=True)]


def process_holder(snapshots, key, seq, pid, start, pods):
    """Holder id of a process under the snapshot it names."""
    found = next((snap for sender, snap in snapshots if sender == key and snap.mapping_seq == seq), None)
    if found is None:
        return "unattributed"
    matches = [p for p in found.processes if p.pid == pid and (start < 0 or p.start_ticks == start)]
    if not matches or (start < 0 and len(matches) > 1):
        return "unattributed"
    process = matches[0]
    if process.kind == "host":
        return "host"
    if process.kind != "container":
        return "unattributed"
    for pod in pods:
        for container in pod.containers:
            if any(run.container_id == process.container_id for run in container.runs):
                return f"{pod.uid}/{container.name}"
    for pod in pods:
        if process.pod_uid in (pod.uid, pod.config_hash) and process.pod_uid:
            return f"{pod.uid}/id:{process.container_id[:12]}"
    return f"{process.pod_uid}/id:{process.container_id[:12]}" if process.pod_uid else "host"


def grants_at(snapshots, pods, a, b):
    """For every device, [(start, end, {holder: slots})] over the window, cut wherever a grant begins or ends."""
    lives = defaultdict(set)
    shown = defaultdict(list)
    for _, snap in snapshots:
        for grant in snap.grants if snap.grants_status == "ok" else []:
            shown[grant.gpu_uuid, grant.slot, _owner(grant, snap.taken_us, pods)].append(snap.taken_us)
    for (gpu, slot, (holder, runs)), taken in shown.items():
        for start, end in runs or ((min(taken), max(taken)),):
            if end > start:
                lives[gpu, slot].add((start, holder, end))
    out = defaultdict(list)
    for (gpu, _), line in lives.items():
        ordered = sorted(line)
        for i, (start, holder, end) in enumerate(ordered):
            stop = min([end, *(other[0] for other in ordered[i + 1 : i + 2])])
            out[gpu].append((start, stop, holder))
    result = {}
    for gpu, line in out.items():
        edges = sorted({a, b} | {t for start, end, _ in line for t in (start, end) if a < t < b})
        result[gpu] = [
            (x, y, _count([h for start, end, h in line if start <= x and y <= end])) for x, y in pairwise(edges)
        ]
    return result


def _count(holders):
    return {h: holders.count(h) for h in sorted(set(holders))}


def _owner(grant, taken, pods):
    def distance(pod):
        end = 1 << 62 if pod.deleted_us is None else pod.deleted_us
        return (
            0
            if pod.created_us <= taken < end
            else pod.created_us - taken
            if taken < pod.created_us
            else taken - end + 1
        )

    mine = [p for p in pods if (p.namespace, p.name) == (grant.namespace, grant.pod_name)]
    if not mine:
        return f"{grant.namespace}/{grant.pod_name}/{grant.container_name}", ()
    pod = min(mine, key=lambda p: (distance(p), -p.created_us, p.uid))
    last = 1 << 62 if pod.deleted_us is None else pod.deleted_us
    runs = [r for c in pod.containers if c.name == grant.container_name for r in c.runs]
    lives = tuple((r.started_us, last if r.finished_us is None else r.finished_us) for r in runs)
    return f"{pod.uid}/{grant.container_name}", lives


def rows_of(log, settings: MeterSettings):
    """{(node, gpu, holder, window): measures} of every window whose cuts the log decides."""
    topics, out = parse(log), {}
    senders = {(h.cluster, h.node) for _, h, _ in topics[GPU_SAMPLES] if h.record == "reading"}
    for cluster, node in sorted(senders):
        cuts, lists, boots = node_cuts(topics[GPU_SAMPLES], cluster, node, settings)
        clocks = [clock_points(topics[t], cluster) for t in (POD_MAPPINGS, POD_EVENTS)]
        for start, cut in cuts.items():
            known = [entry for entry in lists if entry[0] < start + settings.window_us and entry[1] < cut]
            devices = max(known, key=lambda entry: entry[:2])[2] if known else set()
            at = start + settings.window_us + settings.lateness_us
            others = [first_at(points, at) for points in clocks]
            if None in others:
                continue
            floors = [read_from(points, start - settings.reach_back_us) for points in clocks]
            out |= window_rows(topics, cluster, node, start, (cut, *others), floors, devices, boots, settings)
    return out


def window_rows(topics, cluster, node, a, cuts, floors, devices, boots, s):
    """Rows of one node's window from the records below its cuts."""
    b = a + s.window_us
    mine = [
        [r for r in topics[t] if r[1].node == node and r[1].cluster == cluster and r[1].record != "clock"]
        for t in TOPICS
    ]
    readings, seen = [], set()
    for offset, h, (device, process) in mine[0]:
        key = (h.boot_id, h.epoch_us, h.seq)
        if offset < cuts[0] and key not in seen:
            seen.add(key)
            readings.append((boots.index(h.boot_id), h.epoch_us, h.seq, h, device, process))
    readings.sort(key=lambda r: r[:3])
    snapshots = [((h.boot_id, h.epoch_us), c) for o, h, c in mine[1] if floors[0] <= o < cuts[1]]
    told = [(c.seen_us, o, c) for o, h, c in mine[2] if floors[1] <= o < cuts[2] and h.record == "pod"]
    pods = {c.uid: c for _, _, c in sorted(told, key=lambda t: t[:2])}
    pods = [pods[uid] for uid in sorted(pods)]
    grants = grants_at(snapshots, pods, a, b)
    slots = {d.gpu_uuid: d.slots for _, snap in snapshots[-1:] for d in snap.slots}
    sums = defaultdict(lambda: defaultdict(int))
    covered, observed, names = defaultdict(list), defaultdict(int), set(devices)
    for *_, h, device, process in readings:
        for i, gpu in enumerate(device["gpu_uuid"]):
            if (
                max(int(device["span_end_us"][i]), int(device["read_us"][i]) + 1) > a
                and min(int(device["span_start_us"][i]), int(device["read_us"][i])) < b
            ):
                names.add(gpu)
            _reading_rows(
                sums, covered[gpu], observed, h, device, process, i, gpu, (a, b), snapshots, pods, grants, slots
            )
    out = {}
    for gpu in names:
        sums[gpu, "unobserved"]["charged"] += b - a - observed[gpu]
        for x, y, held in grants.get(gpu, []):
            for holder, count in held.items():
                sums[gpu, holder]["held_slots"] += count * (y - x)
    for (gpu, holder), m in sums.items():
        held = m["held_slots"] // max(slots.get(gpu, 1), 1)
        measures = tuple(m[name] for name in MEASURES)
        if gpu in names and (held or any(measures)):
            out[node, gpu, holder, a] = (held, observed[gpu], *measures)
    return out


def _reading_rows(sums, covered, observed, h, device, process, i, gpu, window, snapshots, pods, grants, slots):
    t0, t1 = int(device["span_start_us"][i]), int(device["span_end_us"][i])
    pieces = [(max(t0, window[0]), min(t1, window[1]))]
    for x, y in covered:
        pieces = [q for p in pieces for q in ((p[0], min(p[1], x)), (max(p[0], y), p[1])) if q[1] > q[0]]
    pieces = [p for p in pieces if p[1] > p[0]]
    covered += pieces
    n = int(device["sample_count"][i])
    trusted = device["samples_status"][i] == 0 and device["processes_status"][i] in (0, 6) and n > 0
    energy = int(device["energy_end_mj"][i] - device["energy_start_mj"][i]) if device["energy_status"][i] == 0 else 0
    rows = [j for j in range(len(process["pid"])) if process["device_row"][j] == i]
    rows.sort(key=lambda j: (process["pid"][j], process["start_ticks"][j]))
    asked = device["processes_status"][i] == 0
    utils = [
        (j, int(process["sm_util_points"][j]) if asked and process["sm_util_points"][j] >= 0 else None) for j in rows
    ]
    parts = divide(t1 - t0, n, int(device["sample_sum_points"][i]), utils) if trusted and t1 > t0 else []
    key, seq = (h.boot_id, h.epoch_us), int(device["mapping_seq"][i])
    who = {
        j: process_holder(snapshots, key, seq, int(process["pid"][j]), int(process["start_ticks"][j]), pods)
        for j in rows
    }
    listed = [j for j in rows if device["lists_status"][i] == 0 and process["lists"][j] > 0]
    for x0, x1 in pieces:
        for holder in {who[j] for j in listed}:
            sums[gpu, holder]["resident"] += x1 - x0
        for j in listed:
            known = max(int(process["memory_used_bytes"][j]), 0)
            sums[gpu, who[j]]["memory"] += known * ((x1 - t0) // 1000 - (x0 - t0) // 1000)
        piece_energy = energy * (x1 - t0) // (t1 - t0) - energy * (x0 - t0) // (t1 - t0)
        if not parts or int(device["flags"][i]) & RING_OVERFLOW:
            sums[gpu, "unobserved"]["energy"] += piece_energy
            piece_energy = 0
        if not parts:
            continue
        observed[gpu] += x1 - x0
        running, before, joule_before = 0, 0, 0
        for row, us in parts:
            running += us
            behind = running - running * (x0 - t0) // (t1 - t0)
            now = behind * (x1 - x0) // (t1 - x0)
            joule = piece_energy * now // (x1 - x0)
            mine, energy_mine = now - before, joule - joule_before
            before, joule_before = now, joule
            if row == "idle":
                hot = {who[j] for j in listed}
                _idle(sums, gpu, mine, energy_mine, x0, x1, window, grants.get(gpu), slots.get(gpu, 1), hot)
                continue
            holder = row if row == "unattributed" else who[row]
            for name, value in (("used", mine), ("charged", mine), ("energy", energy_mine)):
                sums[gpu, holder][name] += value


def _idle(sums, gpu, us, energy, x0, x1, window, parts, slots, hot):
    if not us:
        return
    for a, b, held in parts or [(*window, {})]:
        lo, hi = max(a, x0), min(b, x1)
        if lo >= hi:
            continue
        time = us * (hi - x0) // (x1 - x0) - us * (lo - x0) // (x1 - x0)
        joule = energy * (hi - x0) // (x1 - x0) - energy * (lo - x0) // (x1 - x0)
        unit, running, used, burnt = max(slots, sum(held.values())), 0, 0, 0
        for holder, count in held.items():
            running += count
            t, e = time * running // unit, joule * running // unit
            sums[gpu, holder]["charged"] += t - used
            sums[gpu, holder]["hot"] += t - used if holder in hot else 0
            sums[gpu, holder]["energy"] += e - burnt
            used, burnt = t, e
        sums[gpu, "unallocated"]["charged"] += time - used
        sums[gpu, "unallocated"]["energy"] += joule - burnt
