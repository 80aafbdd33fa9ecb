"""Seeded logs of three topics: churn, silence, late, doubled, reordered and garbage records, collector restarts."""

import random
from functools import partial

import msgspec
import numpy as np

from schemas.clock import ClockRecord, encode_clock
from schemas.gaps import Gap, encode_gap
from schemas.headers import Headers, encode_headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import ContainerRecord, NodeRecord, PodRecord, Run, encode_record
from schemas.samples import CLOCK_STEP
from schemas.snapshots import DeviceSlots, Grant, ProcessIdentity, Snapshot, encode_snapshot
from stream_jobs.core.contents import LogRecord
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, encode_reading

SECOND = 1_000_000
START = 1_800_000_000 * SECOND // 60_000_000 * 60_000_000


def container_id(n: int) -> str:
    """A container id of 64 hex digits."""
    return f"{n:064x}"


class Log:
    """Collects (arrival, record) per topic and gives them offsets in arrival order."""

    def __init__(self):
        self.items = {GPU_SAMPLES: [], POD_MAPPINGS: [], POD_EVENTS: []}

    def add(self, topic, arrival, headers, payload):
        """Adds a record that arrives at a time."""
        self.items[topic].append((arrival, len(self.items[topic]), encode_headers(headers), payload))

    def records(self):
        """Records of each topic in arrival order."""
        return {
            topic: [LogRecord(o, int(r[0]), r[2], r[3]) for o, r in enumerate(sorted(rows, key=lambda r: r[:2]))]
            for topic, rows in self.items.items()
        }


def reading_payload(rng, t0, t1, gpus, pids, seq, flags=0):
    """A reading of some GPUs over one span, with any answers a driver may give, and these flags among others."""
    device = {f.name: [] for f in DEVICE_SCHEMA}
    process = {f.name: [] for f in PROCESS_SCHEMA}
    for index, gpu in enumerate(gpus):
        begin = t1 if rng.random() < 0.05 else t0
        n = drawn = rng.choice([0, 1, 24, 30, 30, 31])
        answers = (0, 0) if rng.random() < 0.9 else (rng.choice([0, 6, 15]), rng.choice([3, 6, 15, 0]))
        energy = rng.randrange(1 << 40)
        is_instance = answers[1] == 3 and energy % 2
        if is_instance:
            answers, n = (3, 3), 0
        values = dict(
            gpu_uuid=gpu, gpu_index=index, gpu_model="T", read_us=t1 + 1, span_start_us=begin, span_end_us=t1,
            sample_count=n,
            sample_sum_points=min(rng.randrange(100 * drawn + 1), 100 * n),
            samples_status=answers[0], processes_status=answers[1],
            lists_status=rng.choice([0, 0, 0, 4]), memory_total_bytes=1 << 34, memory_used_bytes=1 << 30,
            energy_start_mj=energy, energy_end_mj=energy + rng.randrange(4_000_000),
            energy_status=rng.choice([0, 0, 0, 3]),
            mig_mode=int(is_instance), mapping_seq=seq, dropped_rows=0, flags=rng.choice([0] * 9 + [2]) | flags,
            parent_uuid="", slices=1, slices_total=1,
        )  # fmt: skip
        for name, value in values.items():
            device[name].append(value)
        for pid, start in pids:
            if rng.random() < 0.7:
                start = -1 if rng.random() < 0.05 else start
                row = (
                    index,
                    pid,
                    start,
                    rng.choice([-1, *range(60)]),
                    -1,
                    -1,
                    -1,
                    rng.choice([-1, 1 << 30]),
                    rng.choice([0, 1, 1, 3]),
                    -1,
                    -1,
                )
                for name, value in zip(process, row, strict=True):
                    process[name].append(value)
    text = ("gpu_uuid", "gpu_model", "parent_uuid")
    columns = [{f.name: np.array(part[f.name], object if f.name in text else f.type.to_pandas_dtype())
                for f in schema} for part, schema in ((device, DEVICE_SCHEMA), (process, PROCESS_SCHEMA))]  # fmt: skip
    return encode_reading(*columns)


def make_log(seed: int, nodes: int = 2, minutes: int = 7, late: bool = True, reboots: bool = False):
    """Records of the three topics; with `late`, some arrive after their windows' cuts."""
    rng, log = random.Random(seed), Log()
    end = minutes * 60
    outage = rng.choice([None, None, (150, 190), (200, 330)])
    for t in range(0, end + 700, 5):
        if outage and outage[0] <= t < outage[1]:
            continue
        for topic in log.items:
            arrival = START + (t + rng.random() * 2) * SECOND
            log.add(
                topic,
                arrival,
                Headers(record="clock", cluster="c"),
                encode_clock(ClockRecord(cluster="c", now_us=START + t * SECOND), b"", topic, 0),
            )
    if outage:
        _overrides(random.Random(seed), log, *outage)
    for number in range(nodes):
        add_node(rng, log, number, end, late, reboots)
    for topic in log.items:
        for _ in range(3):
            headers = Headers(
                record=rng.choice(["reading", "snapshot", "pod", "x"]),
                cluster="c",
                node="n0",
                boot_id="b",
                seq=10_000 + rng.randrange(99),
            )
            log.add(
                topic,
                START + rng.randrange(end) * SECOND,
                headers,
                bytes(rng.randrange(256) for _ in range(rng.randrange(40))),
            )
    return log.records()


def _overrides(rng, log, first, last):
    """In some outages of the watcher a worker writes the clock, from a while after it fell silent."""
    for t in range(first + rng.randrange(20, 60), last, 5) if rng.random() < 0.5 else ():
        for topic in log.items:
            told = encode_clock(ClockRecord(cluster="c", now_us=START + t * SECOND, override=True), b"", topic, 0)
            log.add(topic, START + (t + rng.random() * 2) * SECOND, Headers(record="clock", cluster="c"), told)


def add_node(rng, log, number, end, late, reboots=False, steps=()):
    """Adds everything that a node's collector and the watcher send about it; with `reboots` it may boot anew.

    `steps`: from when its wall clock is wrong by how many seconds, a new epoch each.
    """
    name, gpus = f"n{number}", [f"GPU-{number}{g}" for g in range(2)]
    offset_s = rng.choice([0, 0, 37])
    pods = [f"uid-{number}-{p}" for p in range(4)]
    containers = {p: number * 100 + p for p in range(4)}
    _pods(rng, log, name, pods, containers, end, late)
    silent = rng.choice([None, (rng.randrange(60, 200), rng.randrange(200, 420))])
    spool, boot, epoch, seq, mapping, last_map = late and rng.random() < 0.5, "boot-a", 1, 0, 0, -99
    clock, t, wrong, flags, steps = offset_s, offset_s, 0, 0, list(steps)
    grants = {}
    while t < end:
        step = rng.choice([5, 5, 5, 10])
        t0, t1 = START + clock * SECOND + rng.randrange(200_000) * 0, START + (clock + step) * SECOND
        t += step
        if steps and t >= steps[0][0]:
            wrong, flags = steps.pop(0)[1] * SECOND, CLOCK_STEP
            epoch, seq, mapping, last_map = epoch + 1, 0, 0, -99
        if silent and silent[0] <= t < silent[1] and not spool:
            clock = t
            continue
        arrival = t1 if not (silent and silent[0] <= t < silent[1]) else START + silent[1] * SECOND
        t0, t1 = t0 + wrong, t1 + wrong
        if rng.random() < 0.02:
            epoch, seq, mapping, last_map = epoch + 1, 0, 0, -99
            boot = f"boot-{epoch}" if reboots and rng.random() < 0.3 else boot
        if t - last_map >= 60 or rng.random() < 0.05:
            mapping, last_map = mapping + 1, t
            grants = _snapshot(rng, log, name, boot, epoch, mapping, t1, arrival, gpus, pods, containers, late, grants)
        delay = rng.random() * 3 if not late or rng.random() < 0.95 else rng.random() * 400
        pids = [(10 + p, 1000 + p) for p in range(4)] + [(99, 5), (98, 6)]
        shown = gpus if rng.random() < 0.95 else gpus[:1]
        named = mapping if rng.random() < 0.97 else mapping + 7
        payload, flags = reading_payload(rng, t0, t1, shown, pids, named, flags), 0
        headers = Headers(
            record="reading", cluster="c", node=name, boot_id=boot, epoch_us=epoch, seq=seq, complete_to_us=t1
        )
        if rng.random() < 0.04 and _gap(rng, log, headers, t0, arrival + delay * SECOND, late):
            seq += 1
            clock += step
            continue
        log.add(GPU_SAMPLES, arrival + delay * SECOND, headers, payload)
        shifted = partial(reading_payload, rng, t0 + 1_234_567, t1 + 1_234_567, gpus, pids, mapping)
        _again(rng, log, headers, payload, arrival + delay * SECOND, shifted)
        seq += 1
        clock += step


def _again(rng, log, headers, payload, arrival, shifted):
    """Sometimes the same message once more, and sometimes what a second collector on the node says."""
    if rng.random() < 0.06:
        log.add(GPU_SAMPLES, arrival + rng.random() * 60 * SECOND, headers, payload)
    if rng.random() < 0.04:
        twin = msgspec.structs.replace(headers, epoch_us=headers.epoch_us + 50)
        log.add(GPU_SAMPLES, arrival + 1, twin, shifted())


def _gap(rng, log, lost, t0, arrival, late):
    """A gap of the spool, told once or twice; True where it is told in the place of the reading."""
    topic = rng.choice([GPU_SAMPLES, POD_MAPPINGS])
    start_us, end_us = t0 - rng.choice([0, 90]) * SECOND, lost.complete_to_us
    gap = Gap(epoch_us=lost.epoch_us, first_seq=lost.seq, last_seq=lost.seq, start_us=start_us, end_us=end_us)
    told = Headers(
        record="gap", cluster="c", node=lost.node, boot_id=lost.boot_id, epoch_us=lost.epoch_us, seq=lost.seq
    )
    for _ in range(rng.choice([1, 1, 2])):
        log.add(topic, arrival + rng.random() * 200 * late * SECOND, told, encode_gap(gap))
    return topic == GPU_SAMPLES


def _snapshot(rng, log, name, boot, epoch, mapping, taken, arrival, gpus, pods, containers, late, before):
    processes = [
        ProcessIdentity(
            pid=10 + p,
            start_ticks=1000 + p,
            kind="container",
            pod_uid=pods[p],
            container_id=container_id(containers[p]),
        )
        for p in range(4)
        if rng.random() < 0.9
    ]
    processes += [
        ProcessIdentity(pid=99, start_ticks=5, kind="host"),
        ProcessIdentity(pid=98, start_ticks=6, kind="unknown", reason="gone"),
    ]
    if not before or (late and rng.random() < 0.3):
        chosen = [(gpu, f"{gpu}::{s}", p) for gpu in gpus for s, p in enumerate(rng.sample(range(4), rng.randrange(4)))]
        before = [
            Grant(
                gpu_uuid=gpu,
                slot=slot,
                resource="nvidia.com/gpu",
                namespace="ns",
                pod_name=f"p{p % 3}",
                container_name="main",
            )
            for gpu, slot, p in chosen
        ]
    status = "ok" if not late or rng.random() < 0.9 else "unavailable"
    snapshot = Snapshot(
        mapping_seq=mapping, taken_us=int(taken), processes=processes, grants=list(before), grants_status=status,
        slots=[DeviceSlots(gpu_uuid=g, slots=4) for g in gpus],
    )  # fmt: skip
    headers = Headers(record="snapshot", cluster="c", node=name, boot_id=boot, epoch_us=epoch, seq=mapping)
    delay = rng.random() * 2 if not late or rng.random() < 0.9 else rng.random() * 300
    log.add(POD_MAPPINGS, arrival + delay * SECOND, headers, encode_snapshot(snapshot))
    return before


def _pods(rng, log, name, pods, containers, end, late):
    for p, uid in enumerate(pods):
        created = rng.randrange(-100, end // 2)
        finished = rng.choice([None, created + rng.randrange(30, 300)])
        started_us = START + (created + 2) * SECOND + rng.randrange(SECOND)
        for version in range(1 + rng.randrange(3)):
            done = finished if version else None
            run = Run(
                container_id=container_id(containers[p]),
                started_us=started_us,
                finished_us=None if done is None else START + done * SECOND,
            )
            container = ContainerRecord(name="main", requests={"nvidia.com/gpu": 1} if p else {}, runs=[run])
            pod = PodRecord(
                uid=uid, seen_us=version, namespace="ns", name=f"p{p % 3}", node=name,
                created_us=START + created * SECOND,
                containers=[container],
                deleted_us=None if done is None else START + (done + 1) * SECOND,
            )  # fmt: skip
            arrival = (
                created
                + 2
                + version * 40
                + (rng.random() * 3 if not late or rng.random() < 0.8 else rng.random() * 300)
            )
            headers = Headers(record="pod", cluster="c", node=name, seq=version)
            log.add(POD_EVENTS, START + arrival * SECOND, headers, encode_record(pod))
    log.add(POD_EVENTS, START, Headers(record="node", cluster="c", node=name), encode_record(NodeRecord(name=name)))
