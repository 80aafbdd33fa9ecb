"""The slow, obvious grants: who held which slots of a device when, from the snapshots and pods that a window sees."""

from collections import defaultdict
from itertools import pairwise


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
