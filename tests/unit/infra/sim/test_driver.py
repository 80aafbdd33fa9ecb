"""The simulated driver through the real, unmodified pynvml: answers as real drivers were reported to give."""

from collections.abc import Iterator

import pynvml
import pytest

from infra.sim.driver import Driver
from infra.sim.library import Library
from infra.sim.model import SimCluster
from infra.sim.peer_calls import install
from infra.sim.scenario import load_cluster
from infra.sim.workload import Divisor, Fault, FaultKind
from infra.sim.world import engines_of

START_US = 1_795_000_000_000_000 // 60_000_000 * 60_000_000


class Rig:
    """A driver under pynvml whose time the test moves."""

    def __init__(self, scenario: str, faults: tuple[FaultKind, ...] = (), divisor: Divisor = "all") -> None:
        self.cluster: SimCluster
        self.cluster, workload = load_cluster(scenario, start_us=START_US)
        self.now_us = START_US + 60_000_000
        node = self.cluster.nodes[0]
        found = [Fault(kind, node.gpus[0].uuid, START_US + 120_000_000, START_US + 180_000_000) for kind in faults]
        self.library = Library(Driver(engines_of(self.cluster, node, workload), lambda: self.now_us, found, divisor))
        install(self.library)
        pynvml.nvmlInit()
        self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0)

    def code_of(self, call: object, *arguments: object) -> int:
        """NVML code that a pynvml call raises, 0 where it succeeds."""
        try:
            call(*arguments)  # type: ignore[operator]
        except pynvml.NVMLError as error:
            return int(error.value)
        return 0


@pytest.fixture(autouse=True)
def library_given_back() -> Iterator[None]:
    """No test leaves its library under pynvml."""
    yield
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()


def test_driver_tells_who_it_is() -> None:
    """Count, UUID, name, index, memory, MIG mode and driver version come through; a UUID finds its device."""
    rig = Rig("default")
    gpu = rig.cluster.nodes[0].gpus[1]
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    assert pynvml.nvmlDeviceGetCount() == 4
    assert pynvml.nvmlDeviceGetUUID(handle) == gpu.uuid and pynvml.nvmlDeviceGetName(handle) == gpu.model
    assert pynvml.nvmlDeviceGetIndex(handle) == pynvml.nvmlDeviceGetMinorNumber(handle) == 1
    assert pynvml.nvmlDeviceGetMigMode(handle) == [0, 0] and pynvml.nvmlSystemGetDriverVersion().startswith("580")
    older, newer = pynvml.nvmlDeviceGetMemoryInfo(handle), pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert older.total == newer.total == gpu.memory_total_bytes
    assert older.used == newer.used + newer.reserved and newer.free == newer.total - older.used
    assert rig.library.failure is None


def test_driver_refuses_before_init_and_unknown_handles() -> None:
    """Calls without init are UNINITIALIZED; an index or UUID that is not there is refused with its own code."""
    rig = Rig("time-slicing")
    assert rig.code_of(pynvml.nvmlDeviceGetHandleByIndex, 9) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert rig.code_of(pynvml.nvmlDeviceGetHandleByUUID, "GPU-none") == pynvml.NVML_ERROR_NOT_FOUND
    pynvml.nvmlShutdown()
    assert rig.code_of(pynvml.nvmlDeviceGetUUID, rig.gpu) == pynvml.NVML_ERROR_UNINITIALIZED
    assert rig.code_of(pynvml.nvmlShutdown) == pynvml.NVML_ERROR_UNINITIALIZED
    assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"


def test_process_utilisation_is_the_floored_share_of_the_samples() -> None:
    """smUtil is 100 x samples naming the pid over all samples since lastSeen, floored; the time is its newest."""
    rig = Rig("time-slicing")
    last = rig.now_us - 5_000_000
    _, samples = pynvml.nvmlDeviceGetSamples(rig.gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, last)
    rows = pynvml.nvmlDeviceGetProcessUtilization(rig.gpu, last)
    times, named = rig.library.driver.devices[0].engine.ring(rig.now_us)
    since = named[times > last].tolist()
    assert [sample.timeStamp for sample in samples] == times[times > last].tolist()
    assert [sample.sampleValue.uiVal for sample in samples] == [100 if pid else 0 for pid in since]
    assert {row.pid: row.smUtil for row in rows} == {p: 100 * since.count(p) // len(since) for p in set(since) - {0}}
    assert max(row.timeStamp for row in rows) <= samples[-1].timeStamp
    assert sum(row.smUtil for row in rows) <= 100


def test_process_utilisation_divides_by_busy_samples_where_chosen() -> None:
    """With the divisor `busy` the points add up to nearly 100 however little the device works."""
    points = {}
    for divisor in ("all", "busy"):
        rig = Rig("unrequested", divisor=divisor)
        points[divisor] = sum(row.smUtil for row in pynvml.nvmlDeviceGetProcessUtilization(rig.gpu, 0))
    assert points["all"] < 60 and points["busy"] >= 99


def test_not_found_is_an_idle_device_with_samples() -> None:
    """Where nothing ran, samples exist and process utilisation is NOT_FOUND; samples after now are NOT_FOUND too."""
    rig = Rig("default")
    idle = rig.library.driver.devices[1]
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    rig.now_us = START_US
    kind = pynvml.NVML_GPU_UTILIZATION_SAMPLES
    assert rig.code_of(pynvml.nvmlDeviceGetSamples, handle, kind, rig.now_us) == pynvml.NVML_ERROR_NOT_FOUND
    assert rig.code_of(pynvml.nvmlDeviceGetProcessUtilization, handle, rig.now_us) == pynvml.NVML_ERROR_NOT_FOUND
    assert idle.process_utilisation(START_US, START_US)[0] == pynvml.NVML_ERROR_NOT_FOUND


def test_function_not_found_for_what_older_drivers_lack() -> None:
    """nvmlDeviceGetProcessesUtilizationInfo is not exported, so callers must fall back."""
    rig = Rig("time-slicing")
    code = rig.code_of(pynvml.nvmlDeviceGetProcessesUtilizationInfo, rig.gpu, 0)
    assert code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


def test_process_lists_show_every_context() -> None:
    """The compute list has every resident process with its memory, working or not; the other lists are empty."""
    rig = Rig("idle-notebook")
    rows = pynvml.nvmlDeviceGetComputeRunningProcesses(rig.gpu)
    expected = [p for pod in rig.cluster.pods for c in pod.containers for p in c.processes]
    assert {row.pid: row.usedGpuMemory for row in rows} == {p.pid: p.memory_bytes for p in expected}
    assert rows[0].gpuInstanceId == 0xFFFFFFFF
    assert pynvml.nvmlDeviceGetGraphicsRunningProcesses(rig.gpu) == []
    assert pynvml.nvmlDeviceGetMPSComputeRunningProcesses(rig.gpu) == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [("process_util_not_supported", pynvml.NVML_ERROR_NOT_SUPPORTED), ("process_util_no_permission", 4)],
)
def test_refused_process_utilisation_is_its_own_code(kind: FaultKind, code: int) -> None:
    """While the fault is on, process utilisation is refused with its code and samples go on."""
    rig = Rig("time-slicing", (kind,))
    codes = []
    for offset in (119, 120, 179, 180):
        rig.now_us = START_US + offset * 1_000_000
        codes.append(rig.code_of(pynvml.nvmlDeviceGetProcessUtilization, rig.gpu, 0))
        assert pynvml.nvmlDeviceGetSamples(rig.gpu, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)[1]
    assert codes == [0, code, code, 0]


def test_lost_device_answers_lost_and_comes_back() -> None:
    """Every call on a lost device is GPU_IS_LOST, the others work on, and later it answers again."""
    rig = Rig("device-lost", ("device_lost",))
    rig.now_us = START_US + 150_000_000
    lost = pynvml.NVML_ERROR_GPU_IS_LOST
    assert rig.code_of(pynvml.nvmlDeviceGetUUID, rig.gpu) == lost
    assert rig.code_of(pynvml.nvmlDeviceGetHandleByIndex, 0) == lost
    assert pynvml.nvmlDeviceGetCount() == 3 and pynvml.nvmlDeviceGetHandleByIndex(1)
    rig.now_us = START_US + 200_000_000
    assert pynvml.nvmlDeviceGetUUID(rig.gpu) == rig.cluster.nodes[0].gpus[0].uuid


def test_bad_rows_come_with_the_true_ones() -> None:
    """The reported garbage (pid 0, 37100 points, blanks, zeros) is there beside unchanged true rows."""
    rig = Rig("bad-rows", ("bad_rows",))
    rig.now_us = START_US + 110_000_000
    known = {row.pid for row in pynvml.nvmlDeviceGetProcessUtilization(rig.gpu, 0)}
    rig.now_us = START_US + 130_000_000
    rows = pynvml.nvmlDeviceGetProcessUtilization(rig.gpu, 0)
    good = [row for row in rows if row.pid in known]
    assert sum(row.smUtil for row in good) <= 100 and {row.pid for row in good} == known
    assert {0, 50554} <= {row.pid for row in rows} and 37100 in {row.smUtil for row in rows} and len(rows) > 60


def test_energy_reset_starts_the_counter_again() -> None:
    """At a reset the energy counter falls back to nothing and rises again."""
    rig = Rig("bad-rows", ("energy_reset",))
    energy = []
    for offset in (100, 119, 121, 150):
        rig.now_us = START_US + offset * 1_000_000
        energy.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(rig.gpu))
    assert energy[0] < energy[1] and energy[2] < 1_000_000 < energy[0] and energy[2] < energy[3]


def test_gauge_and_power_follow_the_engine() -> None:
    """The gauge is the busy part of the last second, and power lies between idle and full."""
    rig = Rig("time-slicing")
    gauge = pynvml.nvmlDeviceGetUtilizationRates(rig.gpu).gpu
    busy = rig.library.driver.devices[0].engine.timeline.busy_us(rig.now_us - 1_000_000, rig.now_us).sum()
    assert gauge == busy // 10_000 and 60_000 <= pynvml.nvmlDeviceGetPowerUsage(rig.gpu) <= 340_000


def test_failure_inside_a_callback_is_kept_and_unknown() -> None:
    """What goes wrong inside the driver is UNKNOWN to the caller and kept, never a success."""
    rig = Rig("time-slicing")
    rig.library.driver.devices[0].engine.energy_mj = None  # type: ignore[method-assign, assignment]
    assert rig.code_of(pynvml.nvmlDeviceGetTotalEnergyConsumption, rig.gpu) == pynvml.NVML_ERROR_UNKNOWN
    assert isinstance(rig.library.failure, TypeError)
