"""Seeded logs over most of a day: nodes that fall silent or are deleted, and come back under their names or do not."""

import random

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import NodeRecord, encode_record
from schemas.snapshots import Snapshot, encode_snapshot
from tests.property.workload import SECOND, START, Log, reading_payload

REACH_S, CLOCK_S = 1800, 15
OVER_DELETED_S, OVER_SILENT_S = REACH_S + 2 * 3600, 2 * REACH_S + 2 * 3600
"""Silences about as long as this, after which nothing of a node can be revised any more, are the ones to look at."""
PIN_S = 5 * 3600


def lives_log(seed: int, hours: int = 14):
    """Records of the three topics; in most logs a reading far ahead holds progress back for hours."""
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
        at_s, name, lives = rng.randrange(10, 1800), f"n{n}", 0
        while at_s < hours * 3600:
            end_s, deleted = _life(rng, log, name, lives, at_s)
            over_s = OVER_DELETED_S if deleted else OVER_SILENT_S
            silence_s = rng.choice([rng.randrange(600, over_s - 600), over_s + rng.randrange(600, 7200)])
            lives += 1
            at_s = end_s + silence_s
    return log.records()


def _life(rng, log, name, life, at_s):
    """When the last of its readings was there, and whether it was deleted after it."""
    all_late_s = rng.choice([0, 0, rng.randrange(500, 900)])
    gpus, boot, newest_s = [f"GPU-{name[1]}{g}" for g in range(2)], f"boot-{life}", at_s
    _record(log, name, at_s, None)
    for number, start_s in enumerate(range(at_s, at_s + rng.choice([90, 240]), 30)):
        snapshot = Snapshot(
            mapping_seq=number, taken_us=START + start_s * SECOND, processes=[], grants=[], slots=[]
        )  # fmt: skip
        headers = Headers(record="snapshot", cluster="c", node=name, boot_id=boot, epoch_us=life + 1, seq=number)
        log.add(POD_MAPPINGS, START + (start_s + 1) * SECOND, headers, encode_snapshot(snapshot))
        late_s = all_late_s + rng.choice([0, 0, 0, rng.randrange(600)])
        newest_s = max(newest_s, start_s + 31 + late_s)
        _reading(rng, log, name, life, number, start_s, start_s + 31 + late_s, gpus)
    deleted = rng.random() < 0.5
    if deleted:
        _record(log, name, newest_s + 20, START + newest_s * SECOND)
    return newest_s, deleted


def _reading(rng, log, name, life, number, start_s, arrives_s, gpus=("GPU-far",)):
    end_us = START + (start_s + 30) * SECOND
    headers = Headers(
        record="reading", cluster="c", node=name, boot_id=f"boot-{life}", epoch_us=life + 1, seq=number,
        complete_to_us=end_us,
    )  # fmt: skip
    payload = reading_payload(rng, START + start_s * SECOND, end_us, gpus, [(10, 1000)], number)
    for _ in range(rng.choice([1, 1, 2])):
        log.add(GPU_SAMPLES, START + arrives_s * SECOND, headers, payload)


def _record(log, name, at_s, deleted_us):
    record = NodeRecord(
        name=name, seen_us=START + at_s * SECOND, created_us=START + at_s * SECOND, deleted_us=deleted_us
    )
    log.add(POD_EVENTS, START + at_s * SECOND, Headers(record="node", cluster="c", node=name), encode_record(record))
