"""The slow, obvious meter: rows as a pure function of the whole log, one record and one fraction at a time."""

import math
from collections import defaultdict
from fractions import Fraction

from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.samples import RING_OVERFLOW
from stream_jobs.core.settings import MeterSettings
from tests.property.oracle_grants import grants_at
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
)

MEASURES = ("used", "charged", "energy", "resident", "memory", "hot")


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


def rows_of(log, settings: MeterSettings):
    """{(node, gpu, holder, window): measures} of every window whose cuts the log decides."""
    topics, out = parse(log), {}
    for cluster, node, start, cuts, floors, devices, walk in windows_of(topics, settings):
        sees = first_sight(cuts, floors)
        out |= window_rows(topics, cluster, node, start, sees, devices, walk.boots, settings)
    return out


def first_sight(cuts, floors):
    """Whether a window's first result sees the record at an offset of topic 0, 1 or 2."""
    return lambda topic, offset: (0, *floors)[topic] <= offset < cuts[topic]


def gap_windows(log, settings: MeterSettings):
    """{(node, window)} that a gap of a spool touches; one of readings counts after the node's first."""
    topics, out = parse(log), set()
    for cluster, node, start, cuts, floors, _, _ in windows_of(topics, settings):
        for topic, floor, cut in ((GPU_SAMPLES, 0, cuts[0]), (POD_MAPPINGS, floors[0], cuts[1])):
            started = False
            for offset, headers, content in topics[topic]:
                if (headers.cluster, headers.node) != (cluster, node) or not floor <= offset < cut:
                    continue
                started |= headers.record == "reading" and len(content[0]["read_us"]) > 0
                counts = headers.record == "gap" and (started or topic == POD_MAPPINGS)
                if counts and content.start_us < window_end(start, settings) and content.end_us >= start:
                    out.add((node, start))
    return out


def windows_of(topics, settings: MeterSettings):
    """Every window whose cuts the log decides, with its cuts, floors, devices and its node's walk."""
    senders = {(h.cluster, h.node) for _, h, _ in topics[GPU_SAMPLES] if h.record == "reading"}
    for cluster, node in sorted(senders):
        walk = NodeWalk(topics[GPU_SAMPLES], cluster, node, settings)
        clocks = [clock_points(topics[t], cluster) for t in (POD_MAPPINGS, POD_EVENTS)]
        for start, cut in walk.cuts.items():
            known = [entry for entry in walk.devices if entry[0] < window_end(start, settings) and entry[1] < cut]
            devices = max(known, key=lambda entry: entry[:2])[2] if known else set()
            at = due(start, settings)
            others = [first_at(points, at) for points in clocks]
            if None in others:
                continue
            floors = [read_from(points, start - settings.reach_back_us) for points in clocks]
            yield cluster, node, start, (cut, *others), floors, devices, walk


def window_rows(topics, cluster, node, a, sees, devices, boots, s):
    """Rows of one node's window from the records that it sees."""
    b = window_end(a, s)
    mine = [
        [r for r in topics[t] if r[1].node == node and r[1].cluster == cluster and r[1].record not in ("clock", "gap")]
        for t in TOPICS
    ]
    readings, seen = [], set()
    for offset, h, (device, process) in mine[0]:
        key = (h.boot_id, h.epoch_us, h.seq)
        if key not in seen and sees(0, offset):
            readings.append((boots.index(h.boot_id), h.epoch_us, h.seq, h, device, process))
        seen.add(key)
    readings.sort(key=lambda r: r[:3])
    snapshots = [((h.boot_id, h.epoch_us), c) for o, h, c in mine[1] if sees(1, o)]
    told = [(c.seen_us, o, c) for o, h, c in mine[2] if sees(2, o) and h.record == "pod"]
    pods = {c.uid: c for _, _, c in sorted(told, key=lambda t: t[:2])}
    pods = [pods[uid] for uid in sorted(pods)]
    grants = grants_at(snapshots, pods, a, b)
    slots = {d.gpu_uuid: d.slots for _, snap in snapshots[-1:] for d in snap.slots}
    sums = defaultdict(lambda: defaultdict(int))
    covered, observed, names = defaultdict(list), defaultdict(int), set(devices)
    for *_, h, device, process in readings:
        for i, gpu in enumerate(device["gpu_uuid"]):
            first, last = message_touches(device)
            if last > a and first < b:
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
    for (gpu, holder), m in list(sums.items()):
        held = m["held_slots"] // max(slots.get(gpu, 1), 1)
        if sums[gpu, ""]["allocated"]:
            # What was used of it nobody knows, nor what of it was idle.
            m["used"] = m["hot"] = 0
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
    energy = int(device["energy_end_mj"][i] - device["energy_start_mj"][i]) if device["energy_status"][i] == 0 else 0
    rows = [j for j in range(len(process["pid"])) if process["device_row"][j] == i]
    rows.sort(key=lambda j: (process["pid"][j], process["start_ticks"][j]))
    if t0 == t1 and window[0] <= int(device["read_us"][i]) < window[1]:
        sums[gpu, "unobserved"]["energy"] += energy
    if not pieces:
        return
    parts = _parts(device, process, i, rows)
    key, seq = (h.boot_id, h.epoch_us), int(device["mapping_seq"][i])
    pids = {j: (int(process["pid"][j]), int(process["start_ticks"][j])) for j in rows}
    who = {j: process_holder(snapshots, key, seq, *pids[j], pods) for j in rows}
    listed = [j for j in rows if device["lists_status"][i] == 0 and process["lists"][j] > 0]
    hot = {who[j] for j in listed}
    for x0, x1 in pieces:
        for holder in hot:
            sums[gpu, holder]["resident"] += x1 - x0
        for j in listed:
            known = max(int(process["memory_used_bytes"][j]), 0)
            sums[gpu, who[j]]["memory"] += known * ((x1 - t0) // 1000 - (x0 - t0) // 1000)
        piece_energy = energy * (x1 - t0) // (t1 - t0) - energy * (x0 - t0) // (t1 - t0)
        if not parts or int(device["flags"][i]) & RING_OVERFLOW:
            sums[gpu, "unobserved"]["energy"] += piece_energy
            piece_energy = 0
        if parts:
            observed[gpu] += x1 - x0
            sums[gpu, ""]["allocated"] += _is_allocated(device, i)
        for row, mine, energy_mine in _cut_parts(parts, t0, t1, x0, x1, piece_energy):
            if row == "idle":
                _idle(sums, gpu, mine, energy_mine, x0, x1, window, grants.get(gpu), slots.get(gpu, 1), hot)
                continue
            holder = row if row == "unattributed" else who[row]
            for name, value in (("used", mine), ("charged", mine), ("energy", energy_mine)):
                sums[gpu, holder][name] += value


def _is_allocated(device, i):
    """Whether it is a MIG instance of which the driver tells no use."""
    return device["mig_mode"][i] == 1 and device["samples_status"][i] == 3


def _parts(device, process, i, rows):
    """The shares of a reading, none where it is not to be trusted."""
    span, n = int(device["span_end_us"][i] - device["span_start_us"][i]), int(device["sample_count"][i])
    if _is_allocated(device, i) and span:
        return divide(span, 1, 0, [(j, None) for j in rows])
    trusted = device["samples_status"][i] == 0 and device["processes_status"][i] in (0, 6)
    if not trusted or n == 0 or span == 0:
        return []
    asked = device["processes_status"][i] == 0
    points = {j: int(process["sm_util_points"][j]) for j in rows}
    utils = [(j, points[j] if asked and points[j] >= 0 else None) for j in rows]
    return divide(span, n, int(device["sample_sum_points"][i]), utils)


def _cut_parts(parts, t0, t1, x0, x1, energy):
    """Each row's microseconds and millijoules in the piece [x0, x1) of a reading."""
    running, before, joule_before = 0, 0, 0
    for row, us in parts:
        running += us
        behind = running - running * (x0 - t0) // (t1 - t0)
        now = behind * (x1 - x0) // (t1 - x0)
        joule = energy * now // (x1 - x0)
        yield row, now - before, joule - joule_before
        before, joule_before = now, joule


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
