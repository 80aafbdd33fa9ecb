"""GPUs of a scripted libnvidia-ml that follow loads: points of 100 from a second to a second after START."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.unit.collector.conftest import ScriptedGpu, ScriptedLibrary

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
SAMPLE_US = 200_000


class Load(NamedTuple):
    """A process that keeps a GPU busy."""

    pid: int
    points: int
    start_s: float = 0
    end_s: float = 1e9


class Gpu(ScriptedGpu):
    """A scripted GPU whose samples and process rows follow its loads; what a test sets itself stays as it is."""

    def __init__(self, uuid: str, now_us: Callable[[], int]) -> None:
        super().__init__(uuid)
        self.now_us = now_us
        self.loads: list[Load] = []
        self.watts = 0
        self.phase_us = 0
        self.names_processes = True
        """Whether utilisation by process is told."""
        self.extra_rows: list[tuple[int, int, int, int, int, int]] = []

    def energy(self) -> int:
        """Millijoules since START."""
        return self.watts * max(0, self.now_us() - START) // 1000

    def busy(self, at_us: int) -> list[Load]:
        """Loads at a time."""
        return [load for load in self.loads if load.start_s * SECOND <= at_us - START < load.end_s * SECOND]

    def ring(self, since_us: int = 0) -> list[int]:
        """Times of the samples that the driver holds."""
        newest = (self.now_us() - self.phase_us) // SAMPLE_US * SAMPLE_US + self.phase_us
        return [at for at in range(newest - 60 * SAMPLE_US, newest + 1, SAMPLE_US) if at > since_us]


class Library(ScriptedLibrary):
    """The scripted library with GPUs that follow their loads."""

    def on_nvmlDeviceGetSamples(self, handle: Any, kind: Any, since: Any, value: Any, count: Any, rows: Any) -> int:
        gpu = self._known(handle)
        if isinstance(gpu, Gpu):
            gpu.samples = [(at, min(100, sum(b.points for b in gpu.busy(at)))) for at in gpu.ring(since.value)]
        return super().on_nvmlDeviceGetSamples(handle, kind, since, value, count, rows)

    def on_nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        gpu = self._known(handle)
        if isinstance(gpu, Gpu):
            gpu.energy_mj = gpu.energy()
        return super().on_nvmlDeviceGetTotalEnergyConsumption(handle, energy)

    def on_nvmlDeviceGetProcessUtilization(self, handle: Any, rows: Any, count: Any, since: Any) -> int:
        gpu = self._known(handle)
        if isinstance(gpu, Gpu):
            gpu.utilisation = [*_rows_of(gpu, since.value), *gpu.extra_rows]
        return super().on_nvmlDeviceGetProcessUtilization(handle, rows, count, since)


def _rows_of(gpu: Gpu, since_us: int) -> list[tuple[int, int, int, int, int, int]]:
    ring = gpu.ring(since_us)
    found: dict[int, tuple[int, int]] = {}
    for at in ring if gpu.names_processes else ():
        for load in gpu.busy(at):
            found[load.pid] = at, found.get(load.pid, (0, 0))[1] + load.points
    return [(pid, at, points // len(ring), 0, 0, 0) for pid, (at, points) in found.items() if points >= len(ring)]
