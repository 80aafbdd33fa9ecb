"""A GPU whose MIG layout changes again and again: each slice counts once, and in any order the rows are alike."""

import random
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from schemas.samples import DEVICE_DEFAULTS
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, encode_reading
from tests.property.drive import content, run
from tests.property.workload import SECOND, START, Log

GPU, TOTAL, WINDOW_S = "GPU-1", 7, 60
LAYOUTS = ((), (7,), (3, 3), (4, 3), (1,) * 7, (1, 1), (2, 1, 1))
END_S = 300


def _devices(layout: int | None) -> dict[str, tuple[str, int, int]]:
    """UUID to (parent, slices, total); without a layout the GPU is whole."""
    if layout is None:
        return {GPU: ("", 1, 1)}
    instances = {f"MIG-{layout}-{n}": (GPU, slices, TOTAL) for n, slices in enumerate(LAYOUTS[layout])}
    return {GPU: ("", TOTAL, TOTAL)} | instances


def _payload(
    readings: list[tuple[int, int | None]], spans: dict[str, tuple[int, bool]], sized: bool = True
) -> tuple[bytes, int]:
    """Readings (second, layout) in one message, and how far it reaches back: to where devices were read before."""
    rows = []
    for at_s, layout in readings:
        devices = _devices(layout)
        for uuid in [known for known in spans if known not in devices or spans[known][1] != (layout is not None)]:
            del spans[uuid]
        for uuid, (parent, slices, total) in devices.items():
            is_mig, end_us = layout is not None, START + at_s * SECOND
            values = dict.fromkeys(DEVICE_SCHEMA.names, 0) | DEVICE_DEFAULTS | {
                "gpu_uuid": uuid, "gpu_model": "T", "read_us": end_us, "span_end_us": end_us,
                "span_start_us": spans.get(uuid, (end_us, is_mig))[0], "sample_count": 0 if is_mig else 30,
                "sample_sum_points": 0 if is_mig else 1_000, "mig_mode": int(is_mig), "mapping_seq": 1,
                "samples_status": 3 if is_mig else 0, "processes_status": 3 if is_mig else 6,
                "parent_uuid": parent, "slices": slices, "slices_total": total,
            } | ({} if sized else DEVICE_DEFAULTS)  # fmt: skip
            spans[uuid] = end_us, is_mig
            rows.append(values)
    device = {
        f.name: np.array([row[f.name] for row in rows], object if str(f.type) == "string" else f.type.to_pandas_dtype())
        for f in DEVICE_SCHEMA
    }
    first_s = (int(device["span_start_us"].min()) - START) // SECOND
    return encode_reading(device, {f.name: np.array([], f.type.to_pandas_dtype()) for f in PROCESS_SCHEMA}), first_s


def make(seed: int, late: bool, unsized: bool = False) -> tuple[dict, list[tuple[int, int | None, int]]]:
    """A log of one node and the readings in it: every 5 s, messages late or twice, some without sizes."""
    rng, log, spans, layout = random.Random(seed), Log(), dict[str, tuple[int, bool]](), rng_layout(random.Random(seed))
    told, seq, at_s = list[tuple[int, int | None, int]](), 0, 0
    while at_s < END_S:
        readings = []
        for _ in range(rng.choice([1, 1, 3])):
            at_s += 5
            if rng.random() < 0.15:
                layout = rng_layout(rng)
            readings.append((at_s, layout))
        if rng.random() < 0.05:
            spans.clear()
            continue
        seq += 1
        payload, first_s = _payload(readings, spans, sized=not (unsized and len(readings) == 1 and rng.random() < 0.5))
        told += [(read_s, layout, first_s) for read_s, layout in readings]
        headers = Headers(
            record="reading", cluster="c", node="n", boot_id="b", epoch_us=1, seq=seq,
            complete_to_us=START + at_s * SECOND,
        )  # fmt: skip
        delay_s = 400 * rng.random() if late and rng.random() < 0.15 else rng.random()
        for _ in range(rng.choice([1, 1, 1, 2])):
            log.add(GPU_SAMPLES, START + (at_s + delay_s) * SECOND, headers, payload)
            delay_s += 3
    for topic in INPUT_TOPICS:
        for clock_s in range(0, END_S + 700, 5):
            told_us = START + clock_s * SECOND
            payload = encode_clock(ClockRecord(cluster="c", now_us=told_us), b"", topic, 0)
            log.add(topic, told_us, Headers(record="clock", cluster="c"), payload)
    return log.records(), told


def rng_layout(rng: random.Random) -> int | None:
    """A layout, or none: the GPU is not in MIG mode."""
    return rng.choice([None, *range(len(LAYOUTS))])


def newest(tables: list) -> dict[tuple[str, str, int], dict]:
    """The newest row of each (device, holder, window)."""
    found: dict[tuple[str, str, int], dict] = {}
    for key, (row, *_) in sorted(content(tables).items(), key=lambda item: item[0][4]):
        found[key[1], key[2], key[3]] = row
    return found


def lives(told: list[tuple[int, int | None, int]], start_s: int) -> dict[str, int]:
    """Microseconds of each device in a window, second by second: the devices are those of the next reading.

    That may be the first behind the window, if some span of it reaches into it. Without such a one they are those of
    the window's last reading, else of the last before.
    """
    end_s = start_s + WINDOW_S
    inside = [reading for reading in told if start_s <= reading[0] < end_s]
    inside += [reading for reading in told if reading[0] >= end_s and reading[2] < end_s][:1]
    before = [reading for reading in told if reading[0] < start_s]
    found: dict[str, int] = defaultdict(int)
    for second in range(start_s, end_s):
        after = [reading for reading in inside if reading[0] > second]
        layout = (after[0] if after else inside[-1] if inside else before[-1])[1]
        devices = _devices(layout)
        for uuid, (parent, slices, _) in devices.items():
            found[uuid if parent or layout is None else f"{GPU}/free"] += 0 if uuid == GPU and layout is not None else 1
            found[f"{GPU}/free"] -= slices if parent else 0
        found[f"{GPU}/free"] += TOTAL if layout is not None else 0
    return {uuid: seconds * SECOND for uuid, seconds in found.items() if seconds}


@pytest.mark.parametrize("late", [False, True])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_each_slice_counts_once_however_layouts_change(late: bool, seed: int) -> None:
    """Lifetimes are the naive ones, charged adds up to them, and over the GPU's devices they add up to its slices."""
    log, told = make(seed, late)
    tables, meter = run(log)
    rows = newest(tables)
    assert rows and meter.metrics()["violations"] == 0
    for start_us in {at for _, _, at in rows}:
        mine = [row for (_, _, at), row in rows.items() if at == start_us]
        whole = sum(row["charged_us"] * row["weight_slices"] * TOTAL // row["weight_total"] for row in mine)
        assert whole == TOTAL * WINDOW_S * SECOND
        lifetime = {row["gpu_uuid"]: row["lifetime_us"] for row in mine if row["charged_us"]}
        if not late or start_us < START + END_S * SECOND:
            # Later ones no reading touches: what came last before their cut told of them, and may not be the last.
            assert lifetime == lives(told, (start_us - START) // SECOND)
        for uuid, us in lifetime.items():
            assert us == sum(row["charged_us"] for row in mine if row["gpu_uuid"] == uuid)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_layouts_are_the_same_after_crashes_and_in_any_interleaving(seed: int) -> None:
    """Every copy of a row is equal, first results and revisions, whatever the order of topics and the restarts."""
    log, _ = make(seed, late=True)
    plain = {key: rows[0] for key, rows in content(run(log)[0]).items()}
    rng = random.Random(seed)
    again = content(run(log, rng, crashes=rng.choice([0, 3]))[0])
    assert {key: rows[0] for key, rows in again.items()} == plain
    assert all(row == rows[0] for rows in again.values() for row in rows)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_sizes_that_some_readings_do_not_tell_are_those_of_the_others(seed: int) -> None:
    """In a window in which some reading tells sizes, as while agents are updated, slices add up all the same."""
    log, _ = make(seed, late=True, unsized=True)
    tables, meter = run(log)
    rows = newest(tables)
    for start_us in {at for _, _, at in rows}:
        mine = [row for (_, _, at), row in rows.items() if at == start_us]
        assert min(row["charged_us"] for row in mine) >= 0
        if all(row["weight_total"] == TOTAL for row in mine if row["gpu_uuid"] != GPU and row["charged_us"]):
            whole = sum(row["charged_us"] * row["weight_slices"] * TOTAL // row["weight_total"] for row in mine)
            assert whole == TOTAL * WINDOW_S * SECOND or not any(row["gpu_uuid"] == f"{GPU}/free" for row in mine)
    assert meter.metrics()["violations"] == 0
