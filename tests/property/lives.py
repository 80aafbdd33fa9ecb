"""Seeded logs over most of a day: nodes that fall silent or are deleted, and come back under their names or do not."""

import random
from dataclasses import replace

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import ContainerRecord, NodeRecord, PodRecord, Run, encode_record
from schemas.snapshots import Grant, Snapshot, encode_snapshot
from tests.property.drive import SETTINGS
from tests.property.workload import SECOND, START, Log, reading_payload

REACH_S, CLOCK_S = 1800, 15
SHORT = replace(SETTINGS, reach_us=REACH_S * SECOND, reach_back_us=1200 * SECOND)
"""Windows do not read back to a life that is over, as with the settings that ship."""
PIN_S = 5 * 3600
_EDGE_S = (REACH_S, REACH_S + 400)
"""Silences within these may or may not end a life: that depends on its windows and the clocks."""


def lives_log(seed: int, hours: int = 14, clear: bool = False, renamed: bool = False):
    """Records of the three topics; in most logs a reading far ahead holds progress back for hours.

    `clear`: every silence is well below or well above what ends a life, by readings' times too; `renamed`: then lives
    after an end have names of their own (`n0~1`).
    """
    rng, log = random.Random(seed), Log()
    outage_s = rng.randrange(300, 1800)
    for at_s in range(0, hours * 3600, CLOCK_S):
        if outage_s <= at_s < outage_s + 90:
            continue
        for topic in log.items:
            payload = encode_clock(ClockRecord(cluster="c", now_us=START + at_s * SECOND), b"", topic, 0)
            log.add(topic, START + at_s * SECOND, Headers(record="clock", cluster="c"), payload)
    if rng.random() < 0.7:
        _reading(rng, log, "far", 0, 1, PIN_S, 20)
    for n in range(3):
        at_s, name, end_s = rng.randrange(10, 1800), f"n{n}", 0
        for life in range(100):
            arrivals = _arrivals(rng, at_s)
            silence_s = min(at for _, at in arrivals) - end_s
            if clear and silence_s > _EDGE_S[0] and arrivals[0][0] - end_s < _EDGE_S[1]:
                arrivals = [(start_s + _EDGE_S[1], arrives_s + _EDGE_S[1]) for start_s, arrives_s in arrivals]
            if renamed and life and silence_s > _EDGE_S[0]:
                name = f"n{n}~{life}"
            end_s = _life(rng, log, name, life, arrivals, clear)
            at_s = end_s + rng.choice([rng.randrange(600, REACH_S), REACH_S + rng.randrange(300, 9000)])
            if at_s >= hours * 3600:
                break
    return log.records()


def _arrivals(rng, at_s):
    """When the readings of a life begin and when they come."""
    all_late_s = rng.choice([0, 0, rng.randrange(500, 900)])
    starts = range(at_s, at_s + rng.choice([90, 240]), 30)
    return [(start_s, start_s + 31 + all_late_s + rng.choice([0, 0, 0, rng.randrange(600)])) for start_s in starts]


def _life(rng, log, name, life, arrivals, clear):
    """Writes its records, and of some that they are deleted after the last; when that came."""
    gpus, boot, newest_s = [f"GPU-{name[1]}{g}" for g in range(2)], f"boot-{life}", max(at for _, at in arrivals)
    first_s = arrivals[0][0]
    grant = Grant(
        gpu_uuid=gpus[0], slot=gpus[0], resource="gpu", namespace="ns", pod_name=f"p{life}", container_name="main"
    )
    _record(log, name, first_s, None)
    if rng.random() < 0.7:
        told_s = rng.choice([first_s - 5, newest_s + 30, newest_s + rng.randrange(REACH_S if clear else 4 * 3600)])
        _pod(log, name, f"p{life}", first_s, told_s)
    for number, (start_s, arrives_s) in enumerate(arrivals):
        snapshot = Snapshot(
            mapping_seq=number, taken_us=START + start_s * SECOND, processes=[], grants=[grant], slots=[]
        )  # fmt: skip
        headers = Headers(record="snapshot", cluster="c", node=name, boot_id=boot, epoch_us=life + 1, seq=number)
        log.add(POD_MAPPINGS, START + (start_s + 1) * SECOND, headers, encode_snapshot(snapshot))
        _reading(rng, log, name, life, number, start_s, arrives_s, gpus)
    if rng.random() < 0.5:
        _record(log, name, newest_s + 20, START + newest_s * SECOND)
    return newest_s


def _reading(rng, log, name, life, number, start_s, arrives_s, gpus=("GPU-far",)):
    end_us = START + (start_s + 30) * SECOND
    headers = Headers(
        record="reading", cluster="c", node=name, boot_id=f"boot-{life}", epoch_us=life + 1, seq=number,
        complete_to_us=end_us,
    )  # fmt: skip
    payload = reading_payload(rng, START + start_s * SECOND, end_us, gpus, [(10, 1000)], number)
    for _ in range(rng.choice([1, 1, 2])):
        log.add(GPU_SAMPLES, START + arrives_s * SECOND, headers, payload)


def _pod(log, node, pod, started_s, told_s):
    """The API server's word on a pod; it may come when nothing of the node's life is left to revise."""
    run = Run(container_id="ab" * 32, started_us=START + started_s * SECOND)
    record = PodRecord(
        uid=f"{node[:2]}-{pod}", namespace="ns", name=pod, node=node, created_us=START + started_s * SECOND,
        containers=[ContainerRecord(name="main", requests={"gpu": 1}, runs=[run])], seen_us=START + told_s * SECOND,
    )  # fmt: skip
    log.add(POD_EVENTS, START + told_s * SECOND, Headers(record="pod", cluster="c", node=node), encode_record(record))


def _record(log, name, at_s, deleted_us):
    record = NodeRecord(
        name=name, seen_us=START + at_s * SECOND, created_us=START + at_s * SECOND, deleted_us=deleted_us
    )
    log.add(POD_EVENTS, START + at_s * SECOND, Headers(record="node", cluster="c", node=name), encode_record(record))
