"""One reading of a device from what the driver said."""

from dataclasses import dataclass, field

import pytest

from collector.answers import DeviceAnswer, ListedProcess, ProcessUtilisation, UtilisationSample
from collector.sampling import DeviceReading, DeviceState, complete_to, read_devices
from schemas.samples import CLOCK_STEP, DEVICE_LOST, ENERGY_RESET, FIRST_READING, RING_OVERFLOW, SLICES_UNKNOWN

T = 1_800_000_000_000_000
PERIOD = 200_000


@dataclass
class Said:
    """What the driver said of GPU-0."""

    gpu_uuid: str = "GPU-0"
    samples_status: int = 0
    samples: list[tuple[int, int]] = field(default_factory=list)
    processes_status: int = 0
    processes: list[tuple[int, ...]] = field(default_factory=list)
    listed: list[tuple] = field(default_factory=list)
    energy_status: int = 0
    energy_mj: int = 0
    mig_mode: int = 0
    sizes: tuple[str, int, int] = ("", 1, 1)

    def answer(self) -> DeviceAnswer:
        """As the driver's shell gives it."""
        return DeviceAnswer(
            self.gpu_uuid, 0, "m", self.mig_mode,
            self.samples_status, [UtilisationSample(*row) for row in self.samples], self.processes_status,
            [ProcessUtilisation(*row) for row in self.processes], 0,
            [ListedProcess(*row) for row in self.listed], 10, 5, self.energy_status, self.energy_mj,
            *self.sizes,
        )  # fmt: skip


def _read(said: Said, before: DeviceState | None, now_us: int) -> tuple[DeviceReading, DeviceState]:
    [reading], states = read_devices({} if before is None else {said.gpu_uuid: before}, [said.answer()], now_us)
    return reading, states[said.gpu_uuid]


def _every(start_us: int, end_us: int, points: int = 50) -> list[tuple[int, int]]:
    return [(time_us, points) for time_us in range(start_us + PERIOD, end_us + 1, PERIOD)]


def test_first_reading_only_primes() -> None:
    """The first reading spans nothing at the newest sample, says so, and promises everything from there."""
    reading, state = _read(Said(samples=_every(T - 10_000_000, T)), None, T + 1000)
    assert (reading.span_start_us, reading.span_end_us, reading.sample_count) == (T, T, 0)
    assert reading.flags == FIRST_READING
    assert complete_to({"GPU-0": state}) == T


def test_span_runs_from_newest_sample_to_newest_sample() -> None:
    """The span is between the newest samples of two readings, with exactly the samples after its start."""
    end = T + 5_000_000
    reading, state = _read(Said(samples=_every(T, end)), DeviceState(T, PERIOD), end + 30_000)
    assert (reading.span_start_us, reading.span_end_us) == (T, end)
    assert (reading.sample_count, reading.sample_sum_points, reading.flags) == (25, 1250, 0)
    assert (state.last_seen_us, state.promised_us) == (end, end)


def test_ring_overflow_cuts_the_span_to_its_samples() -> None:
    """After a pause longer than the ring the span begins a period before the oldest sample that is left, flagged."""
    end = T + 40_000_000
    reading, _ = _read(Said(samples=_every(end - 12_000_000, end)), DeviceState(T, PERIOD), end)
    assert (reading.span_start_us, reading.span_end_us) == (end - 12_000_000, end)
    assert (reading.sample_count, reading.flags) == (60, RING_OVERFLOW)


@pytest.mark.parametrize(("status", "flags"), [(3, 0), (4, 0), (6, 0), (15, DEVICE_LOST), (999, 0)])
def test_device_without_samples_has_a_row(status: int, flags: int) -> None:
    """A call that gave no samples leaves a row with its code, spanning nothing at the time of the reading."""
    now = T + 5_000_000
    said = Said(samples_status=status, processes_status=status, energy_status=status)
    reading, state = _read(said, DeviceState(T, PERIOD), now)
    assert (reading.samples_status, reading.processes_status, reading.energy_status) == (status, status, status)
    assert (reading.span_start_us, reading.span_end_us, reading.sample_count) == (now, now, 0)
    assert (reading.flags, state.last_seen_us) == (flags, T)


def test_missed_reading_is_made_up_for() -> None:
    """After a reading without samples that the ring still holds, the next span begins where the last one ended."""
    _, state = _read(Said(samples_status=6), DeviceState(T, PERIOD), T + 5_000_000)
    reading, _ = _read(Said(samples=_every(T, T + 10_000_000)), state, T + 10_000_000)
    assert (reading.span_start_us, reading.sample_count, reading.flags) == (T, 50, 0)


def test_promise_goes_on_without_the_device() -> None:
    """A device that says nothing for long does not hold up what the node promises."""
    _, state = _read(Said(samples_status=15), DeviceState(T, PERIOD, promised_us=T), T + 600_000_000)
    assert complete_to({"GPU-0": state}) == T + 585_000_000


def test_samples_are_counted_once() -> None:
    """A driver that repeats the last seen sample, or the same sample twice, adds nothing."""
    end = T + 5_000_000
    samples = sorted([*_every(T - PERIOD, end), *_every(T, end)])
    reading, state = _read(Said(samples=samples), DeviceState(T, PERIOD), end)
    assert (reading.sample_count, reading.sample_sum_points, state.period_us) == (25, 1250, PERIOD)


def test_span_never_starts_before_the_promise() -> None:
    """Samples older than what was promised since the device last answered are left out, and the cut is flagged."""
    before = DeviceState(T, PERIOD, promised_us=T + 20_000_000)
    reading, state = _read(Said(samples=_every(T, T + 30_000_000)), before, T + 30_000_000)
    assert (reading.span_start_us, reading.span_end_us) == (T + 20_000_000, T + 30_000_000)
    assert (reading.sample_count, reading.flags, state.promised_us) == (50, RING_OVERFLOW, T + 30_000_000)


def test_zombie_rows_are_quarantined() -> None:
    """The rows that operators saw for dead processes are refused and counted, and the good one stays."""
    now = T + 5_000_000
    bad = [(50554, 217144956601725, 37100, 0, 0, 0), *[(0, 0, 0, 0, 0, 0)] * 94, (9, T, 5, 0, 0, 0)]
    ahead = [(10, now + 1_000_001, 5, 0, 0, 0), (6498025472 % 2**32, now, 5, 0, 0, 0)]
    good = (11, now, 5, 0, 0, 0)
    reading, _ = _read(Said(samples=_every(T, now), processes=[*bad, *ahead, good]), DeviceState(T, PERIOD), now)
    assert [row.pid for row in reading.processes] == [11]
    assert reading.dropped_rows == 98


def test_idle_process_has_no_points_rather_than_zero() -> None:
    """A listed process that no sample named has -1 points, and NOT_FOUND stays the call's answer."""
    now = T + 5_000_000
    said = Said(samples=_every(T, now, 0), processes_status=6, listed=[(7, 100, -1, -1, 1)])
    reading, _ = _read(said, DeviceState(T, PERIOD), now)
    [row] = reading.processes
    assert (row.sm_points, row.memory_bytes, row.lists, reading.processes_status) == (-1, 100, 1, 6)


def test_process_in_two_lists_has_its_memory_once() -> None:
    """An MPS client is in the compute and in the MPS list: one process, one memory, both lists; unknown is -1."""
    listed = [(7, 10056, -1, -1, 1), (7, 10056, -1, -1, 4), (8, None, -1, -1, 1)]
    reading, _ = _read(Said(listed=listed), DeviceState(T, PERIOD), T)
    assert [(row.pid, row.memory_bytes, row.lists) for row in reading.processes] == [(7, 10056, 5), (8, -1, 1)]


def test_energy_has_both_ends_or_a_reason() -> None:
    """Energy is told with both its ends; where the end or the start failed, with that code; a decrease is flagged."""
    first, state = _read(Said(energy_mj=100), None, T)
    assert (first.energy_start_mj, first.energy_end_mj, first.energy_status) == (100, 100, 0)
    second, state = _read(Said(energy_mj=150), state, T + 5_000_000)
    assert (second.energy_start_mj, second.energy_end_mj, second.energy_status) == (100, 150, 0)
    third, state = _read(Said(energy_status=15), state, T + 10_000_000)
    fourth, state = _read(Said(energy_mj=170), state, T + 15_000_000)
    assert (third.energy_status, fourth.energy_status) == (15, 15)
    fifth, state = _read(Said(energy_mj=180), state, T + 20_000_000)
    sixth, _ = _read(Said(energy_mj=3), state, T + 25_000_000)
    assert (fifth.energy_start_mj, fifth.energy_end_mj, fifth.energy_status) == (170, 180, 0)
    assert sixth.flags & ENERGY_RESET


def test_two_devices_have_their_own_last_seen() -> None:
    """The newest sample of one GPU never decides what counts on another."""
    answers = [
        Said(samples=_every(T, T + 5_000_000)).answer()._replace(gpu_uuid="A"),
        Said(samples=_every(T - 100_000, T + 4_900_000)).answer()._replace(gpu_uuid="B"),
    ]
    states = {"A": DeviceState(T, PERIOD), "B": DeviceState(T - 100_000, PERIOD)}
    readings, _ = read_devices(states, answers, T + 5_000_000)
    assert [(r.sample_count, r.span_end_us) for r in readings] == [(25, T + 5_000_000), (25, T + 4_900_000)]


def test_flags_of_the_reading_are_on_every_row() -> None:
    """A clock step is told on each device of the reading after it."""
    [reading], _ = read_devices({}, [Said().answer()], T, CLOCK_STEP)
    assert reading.flags == CLOCK_STEP | FIRST_READING


def test_instance_without_utilisation_spans_from_reading_to_reading() -> None:
    """Of a MIG instance the driver tells no samples: readings touch all the same, and begin anew after it was lost."""
    said = Said("MIG-1", samples_status=3, processes_status=3, mig_mode=1)
    first, state = _read(said, None, T)
    assert (first.span_start_us, first.span_end_us, first.sample_count) == (T, T, 0)
    second, state = _read(said, state, T + 5_000_000)
    assert (second.span_start_us, second.span_end_us, second.sample_count) == (T, T + 5_000_000, 0)
    gone, state = _read(Said("MIG-1", samples_status=15, processes_status=15, mig_mode=1), state, T + 10_000_000)
    assert gone.span_start_us == gone.span_end_us
    again, state = _read(said, state, T + 15_000_000)
    assert again.span_start_us == again.span_end_us
    later, _ = _read(said, state, T + 80_000_000)
    assert later.span_start_us == later.span_end_us


def test_gpu_without_utilisation_spans_nothing() -> None:
    """A whole GPU that tells no samples is unobserved, in MIG mode or not: its instances are metered."""
    for mode in (0, 1):
        said = Said("GPU-0", samples_status=3, processes_status=3, mig_mode=mode)
        _, state = _read(said, None, T)
        reading, _ = _read(said, state, T + 5_000_000)
        assert reading.span_start_us == reading.span_end_us


def test_gpu_that_changes_its_mode_begins_anew() -> None:
    """What a GPU was before it went into or out of MIG mode says nothing of the time after: the next reading primes."""
    before = DeviceState(T, PERIOD, mig_mode=1, promised_us=T)
    said = Said(samples=_every(T - 5_000_000, T + 5_000_000))
    reading, after = _read(said, before, T + 5_000_000)
    assert reading.span_start_us == reading.span_end_us == T + 5_000_000
    reading, _ = _read(Said(samples=_every(T, T + 9_000_000)), after, T + 9_000_000)
    assert (reading.span_start_us, reading.span_end_us) == (T + 5_000_000, T + 9_000_000)


def test_gpu_in_mig_mode_spans_the_time_between_readings() -> None:
    """Of free slices nothing is used: a reading covers the time since the one before, if the sizes are known."""
    told = dict(samples_status=3, processes_status=3, mig_mode=1)
    _, state = _read(Said(**told, sizes=("", 7, 7)), None, T)
    reading, _ = _read(Said(**told, sizes=("", 7, 7)), state, T + 5_000_000)
    assert (reading.span_start_us, reading.span_end_us, reading.slices_total) == (T, T + 5_000_000, 7)
    assert not reading.flags & SLICES_UNKNOWN
    reading, _ = _read(Said(**told), state, T + 5_000_000)
    assert reading.span_start_us == reading.span_end_us and reading.flags & SLICES_UNKNOWN
