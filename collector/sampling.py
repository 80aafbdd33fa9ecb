"""From the driver's raw answers to reading rows. Pure: answers and the previous state in, rows and the next state out.

Owns the span of a reading, which samples and rows count in it, both ends of the energy counter, and the promise that
goes with a message. Knows no driver, no clock, no pod. Laws: the spans of a device never overlap and touch where the
driver's ring lost nothing; a refused row is never sent; a device that answered nothing has a row all the same; no
later span starts before what was promised (tests/property/test_sampling_laws.py; unit/collector/test_sampling.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from schemas.samples import (
    DEVICE_LOST,
    ENERGY_RESET,
    FIRST_READING,
    LONGEST_SPAN_US,
    RING_OVERFLOW,
    SLICES_UNKNOWN,
)

from .answers import (
    GPU_IS_LOST,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    DeviceAnswer,
    ListedProcess,
    ProcessUtilisation,
    UtilisationSample,
)

AHEAD_US = 1_000_000
"""A sample further in the future than this is refused."""
RING_REACH_US = 15_000_000
"""The driver's ring holds 12 to 14 s, so no later span starts earlier than this before now."""
SLOWEST_PERIOD_US = 1_000_000
"""Sample period where a single sample shows none; products have 1 s to 1/6 s (nvml.h, nvmlUtilization_t)."""
LARGEST_PID = 1 << 22


class DeviceState(NamedTuple):
    """What a device's next reading needs of the ones before; `last_seen_us` is None before the first sample."""

    last_seen_us: int | None = None
    period_us: int = SLOWEST_PERIOD_US
    energy_status: int = 0
    energy_mj: int | None = None
    promised_us: int = 0
    mig_mode: int | None = None
    """Mode of the reading before: what a GPU was before it changed says nothing of it after."""
    allocated_us: int | None = None
    """When it was read last, if it is an instance whose use the driver does not tell."""


class ProcessRow(NamedTuple):
    """A process in a reading of one device; `seen_us` is the last sample that named it, 0 where none did."""

    pid: int
    seen_us: int
    sm_points: int
    mem_points: int
    enc_points: int
    dec_points: int
    memory_bytes: int
    lists: int
    gpu_instance_id: int
    compute_instance_id: int


class DeviceReading(NamedTuple):
    """A device in a reading: what gpu-samples says of it but for the snapshot's number."""

    gpu_uuid: str
    gpu_index: int
    gpu_model: str
    read_us: int
    span_start_us: int
    span_end_us: int
    sample_count: int
    sample_sum_points: int
    samples_status: int
    processes_status: int
    lists_status: int
    memory_total_bytes: int
    memory_used_bytes: int
    energy_start_mj: int
    energy_end_mj: int
    energy_status: int
    mig_mode: int
    dropped_rows: int
    flags: int
    processes: list[ProcessRow]
    parent_uuid: str = ""
    slices: int = 1
    slices_total: int = 1


class _Span(NamedTuple):
    start_us: int
    end_us: int
    samples: list[UtilisationSample]
    state: DeviceState
    flags: int


def read_devices(
    states: Mapping[str, DeviceState], answers: Sequence[DeviceAnswer], now_us: int, flags: int = 0
) -> tuple[list[DeviceReading], dict[str, DeviceState]]:
    """One reading of every device at `now_us`, and the states for the next; `flags` go on every row."""
    readings: list[DeviceReading] = []
    after: dict[str, DeviceState] = {}
    for answer in answers:
        known = states.get(answer.gpu_uuid)
        before = known or DeviceState(promised_us=complete_to(states))
        row_flags = flags if known else flags | FIRST_READING
        reading, after[answer.gpu_uuid] = _read_device(before, answer, now_us, row_flags)
        readings.append(reading)
    return readings, after


def last_seen(states: Mapping[str, DeviceState]) -> dict[str, int]:
    """Newest sample of each device that has shown one: what the driver is asked to start after."""
    return {uuid: state.last_seen_us for uuid, state in states.items() if state.last_seen_us is not None}


def complete_to(states: Mapping[str, DeviceState]) -> int:
    """A time before which no later span of any device starts; 0 where nothing was read yet."""
    return min((state.promised_us for state in states.values()), default=0)


def _read_device(
    before: DeviceState, answer: DeviceAnswer, now_us: int, flags: int
) -> tuple[DeviceReading, DeviceState]:
    if before.mig_mode not in (None, answer.mig_mode):
        before = DeviceState(promised_us=before.promised_us)
    possible = [s for s in answer.samples if 0 <= s.points <= 100 and s.time_us <= now_us + AHEAD_US]
    good = list({sample.time_us: sample for sample in possible}.values())
    if answer.mig_mode == 1 and answer.slices_total == 1:
        flags |= SLICES_UNKNOWN
    is_metered = answer.gpu_uuid.startswith("MIG-") or answer.slices_total > 1
    allocates = answer.mig_mode == 1 and answer.samples_status == NOT_SUPPORTED and is_metered
    span = _since_last(before, now_us) if allocates else _span(before, good, now_us)
    used = [row for row in answer.processes if _is_possible(row, before.last_seen_us or 0, now_us)]
    listed = [row for row in answer.listed if 0 < row.pid <= LARGEST_PID]
    given = len(answer.samples) + len(answer.processes) + len(answer.listed)
    refused = given - len(good) - len(used) - len(listed)
    start_mj, end_mj, energy_status, energy_flags = _energy(before, answer)
    if answer.samples_status in (GPU_IS_LOST, RESET_REQUIRED):
        flags |= DEVICE_LOST
    reading = DeviceReading(
        answer.gpu_uuid, answer.gpu_index, answer.gpu_model, now_us,
        span.start_us, span.end_us, len(span.samples), sum(sample.points for sample in span.samples),
        answer.samples_status, answer.processes_status, answer.lists_status,
        answer.memory_total_bytes, answer.memory_used_bytes, start_mj, end_mj, energy_status,
        answer.mig_mode, refused, flags | span.flags | energy_flags, merge(used, listed),
        answer.parent_uuid, answer.slices, answer.slices_total,
    )  # fmt: skip
    promised_us = max(before.promised_us, span.state.last_seen_us or 0, now_us - RING_REACH_US)
    return reading, span.state._replace(
        energy_status=answer.energy_status,
        energy_mj=answer.energy_mj if answer.energy_status == 0 else None,
        promised_us=promised_us,
        mig_mode=answer.mig_mode,
        allocated_us=now_us if allocates else None,
    )


def _since_last(before: DeviceState, now_us: int) -> _Span:
    """Span without utilisation, as with MIG (nvml.h): from the reading before, if that was such a one, too."""
    if before.allocated_us is None or now_us - before.allocated_us > LONGEST_SPAN_US:
        return _Span(now_us, now_us, [], before, 0)
    start_us = min(max(before.allocated_us, before.promised_us), now_us)
    return _Span(start_us, now_us, [], before, 0)


def _span(before: DeviceState, good: list[UtilisationSample], now_us: int) -> _Span:
    """Span from the last reading's newest sample to this one's, and exactly the samples after its start.

    Without a new sample the reading spans nothing, at `now_us`; the first that shows one only primes. Where the ring
    covered less than the time since, the span is what the samples cover.
    """
    after_us, promised_us = before.last_seen_us, before.promised_us
    fresh = [sample for sample in good if after_us is None or sample.time_us > after_us]
    if not fresh:
        nowhere_us = max(now_us, promised_us)
        return _Span(nowhere_us, nowhere_us, [], before, 0)
    distances = sorted(later.time_us - earlier.time_us for earlier, later in pairwise(fresh))
    period_us = distances[len(distances) // 2] if distances else before.period_us
    newest_us = fresh[-1].time_us
    state, end_us = before._replace(last_seen_us=newest_us, period_us=period_us), max(newest_us, promised_us)
    if after_us is None:
        return _Span(end_us, end_us, [], state, FIRST_READING)
    start_us, flags = after_us, 0
    if 2 * (newest_us - after_us) > 3 * len(fresh) * period_us:
        start_us, flags = max(after_us, fresh[0].time_us - period_us), RING_OVERFLOW
    if start_us < promised_us:
        start_us, flags = promised_us, RING_OVERFLOW
        fresh = [sample for sample in fresh if sample.time_us > start_us]
    if end_us - start_us > LONGEST_SPAN_US:
        start_us, flags = end_us - LONGEST_SPAN_US, RING_OVERFLOW
        fresh = [sample for sample in fresh if sample.time_us > start_us]
    return _Span(start_us, end_us, fresh, state, flags)


def _is_possible(row: ProcessUtilisation, after_us: int, now_us: int) -> bool:
    """Whether a row can be true; drivers give others for processes that are gone (nvtop#110)."""
    points = max(row.sm_points, row.mem_points, row.enc_points, row.dec_points)
    return 0 < row.pid <= LARGEST_PID and points <= 100 and after_us < row.time_us <= now_us + AHEAD_US


def merge(used: Iterable[ProcessUtilisation], listed: Iterable[ListedProcess]) -> list[ProcessRow]:
    """One row for each pid of utilisation and lists; a pid in two lists is one process with one memory."""
    rows: dict[int, ProcessRow] = {}
    for row in sorted(used, key=lambda row: row.time_us):
        points = (row.sm_points, row.mem_points, row.enc_points, row.dec_points)
        rows[row.pid] = ProcessRow(row.pid, row.time_us, *points, -1, 0, -1, -1)
    for entry in listed:
        known = rows.get(entry.pid) or ProcessRow(entry.pid, 0, -1, -1, -1, -1, -1, 0, -1, -1)
        memory = -1 if entry.memory_bytes is None else entry.memory_bytes
        rows[entry.pid] = known._replace(
            memory_bytes=max(known.memory_bytes, memory),
            lists=known.lists | entry.list_bit,
            gpu_instance_id=entry.gpu_instance_id,
            compute_instance_id=entry.compute_instance_id,
        )
    return [rows[pid] for pid in sorted(rows)]


def _energy(before: DeviceState, answer: DeviceAnswer) -> tuple[int, int, int, int]:
    """Energy at the previous reading and now, the first code of the two that was not 0, and flags."""
    status = before.energy_status or answer.energy_status
    if status:
        return 0, 0, status, 0
    start_mj = answer.energy_mj if before.energy_mj is None else before.energy_mj
    return start_mj, answer.energy_mj, 0, ENERGY_RESET if answer.energy_mj < start_mj else 0
