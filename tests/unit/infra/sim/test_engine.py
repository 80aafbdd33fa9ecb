"""One simulated GPU: ring, residents, energy."""

import numpy as np
import pytest

from infra.sim.engine import RING_SAMPLES, Engine
from infra.sim.model import SimGpu, SimProcess
from infra.sim.timeline import Load

START_US = 1_795_000_000_000_000 // 60_000_000 * 60_000_000
GIB = 1 << 30


def engine(*demand: float, boot_us: int = START_US - 3_600_000_000) -> Engine:
    """A GPU with one process for each demand, all alive from a minute before the start."""
    processes = [
        SimProcess(100 + number, START_US - 60_000_000, None, "GPU-x", str(number), GIB)
        for number in range(len(demand))
    ]
    loads = {str(n): Load(np.array([START_US - 60_000_000]), np.array([share])) for n, share in enumerate(demand)}
    return Engine(SimGpu("GPU-x", 0, "model", 80 * GIB), processes, loads, START_US, boot_us)


def test_ring_holds_72_samples_of_the_last_twelve_seconds() -> None:
    """The ring has 72 samples at 6 Hz in ascending order, none after now, also at the very start and hours later."""
    device = engine(0.5)
    for now_us in (START_US, START_US + 5_000_000, START_US + 7_200_000_000):
        times, named = device.ring(now_us)
        assert len(times) == len(named) == RING_SAMPLES
        assert (np.diff(times) > 160_000).all() and now_us - 200_000 < times[-1] <= now_us
        assert times[0] > now_us - 12_300_000


def test_ring_sample_names_the_process_on_the_engine() -> None:
    """Each sample names the process that had the engine at that microsecond, 0 where none had."""
    device = engine(0.4, 0.3)
    times, named = device.ring(START_US + 60_000_000)
    owner = device.timeline.owner_at(times)
    assert named.tolist() == [0 if lane < 0 else 100 + lane for lane in owner.tolist()]
    assert set(named.tolist()) == {0, 100, 101}


def test_energy_never_falls_and_grows_with_work() -> None:
    """Energy rises from reading to reading, by idle power at least and by more where the engine works."""
    idle, busy = engine(), engine(0.9)
    steps = [START_US + step * 700_000 for step in range(200)]
    for device in (idle, busy):
        energy = [device.energy_mj(now_us) for now_us in steps]
        assert (np.diff(energy) >= 60 * 700).all()
    grown = []
    for device in (engine(), engine(0.9)):
        before = device.energy_mj(START_US)
        grown.append(device.energy_mj(START_US + 3_600_000_000) - before)
    assert grown[0] == 60 * 3_600_000 and abs(grown[1] / 3_600_000 - (60 + 0.9 * 280)) < 3


def test_alive_follows_lives_exactly() -> None:
    """A process is resident from its start to before its end."""
    process = SimProcess(7, START_US + 5, START_US + 9, "GPU-x", "l", GIB)
    load = {"l": Load(np.array([0]), np.array([1.0]))}
    device = Engine(SimGpu("GPU-x", 0, "model", 80 * GIB), [process], load, START_US, START_US)
    alive = [bool(device.alive(START_US + offset)) for offset in (4, 5, 8, 9)]
    assert alive == [False, True, True, False]
    assert device.memory_used_bytes(START_US + 6) == GIB


def test_engine_refuses_a_time_it_has_left_behind() -> None:
    """Asked for samples that it let go hours ago, it refuses; it never answers from the wrong place."""
    device = engine(0.5)
    device.ring(START_US + 7_200_000_000)
    with pytest.raises(ValueError, match="left behind"):
        device.energy_mj(START_US)
