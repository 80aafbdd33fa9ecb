"""Sums over readings do not depend on how the readings were worked on together."""

from collections import Counter
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.core import reduce
from stream_jobs.core.reduce import DEVICE_FIELDS, make_rows, reduce_pieces

SECOND = 1_000_000
SUMS = ("used_us", "variance_us2", "energy_mj", "memory_byte_ms", "memory_partial")


def _sums(seed: int, readings: int, kinds: int) -> tuple[Counter, Counter]:
    """Sums per process and of strips, over readings of one GPU with up to `kinds` processes."""
    rng = np.random.default_rng(seed)
    device = {name: np.zeros(readings, np.int64) for name in DEVICE_FIELDS}
    device["span_start_us"] = np.arange(readings) * SECOND
    device["span_end_us"] = device["span_start_us"] + rng.integers(1, SECOND, readings)
    device["sample_count"] = rng.integers(0, 7, readings)
    device["sample_sum_points"] = rng.integers(0, 100 * device["sample_count"] + 1)
    device["energy_end_mj"] = rng.integers(0, 900_000, readings)
    device["lists_status"] = rng.choice([0, 0, 3], readings)
    row = np.repeat(np.arange(readings), rng.integers(0, kinds, readings))
    process = {
        "device_row": row,
        "pid": np.arange(row.size) - np.searchsorted(row, row) + 1,
        "start_ticks": np.full(row.size, 7),
        "sm_util_points": rng.integers(-1, 60, row.size),
        "memory_used_bytes": rng.integers(-1, 3, row.size) << 20,
        "lists": rng.integers(0, 2, row.size),
    }
    zero = np.zeros(readings, np.int64)
    rows = make_rows(zero, zero, device, process)
    strips = reduce_pieces(rows, np.arange(readings), device["span_start_us"], device["span_end_us"], zero)
    of_process: Counter = Counter()
    for name in SUMS:
        for pid, value in zip(strips.row["pid"].tolist(), strips.row[name].tolist(), strict=True):
            of_process[name, pid] += value
    whole = Counter({name: int(column.sum()) for name, column in (strips.strip | strips.piece).items() if "us" in name})
    whole["present"] = sum(int(bits).bit_count() for bits in strips.row["present"].tolist())
    return of_process, whole


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 400), st.sampled_from([2, 4, 9, 40]))
def test_sums_do_not_depend_on_what_is_worked_on_together(seed: int, readings: int, kinds: int) -> None:
    """Many readings at once, or a few at a time and in matrices of other widths, have the same sums."""
    of_process, whole = _sums(seed, readings, kinds)
    with mock.patch.object(reduce, "_CELLS", 1), mock.patch.object(reduce, "_widths", lambda count: count):
        again, parts = _sums(seed, readings, kinds)
    assert again == of_process
    for name in ("observed_us", "energy_observed_us", "memory_observed_us", "unattributed_us", "idle_us", "present"):
        assert parts[name] == whole[name]
