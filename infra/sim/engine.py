"""One simulated GPU: its engine's time line, the driver's ring of utilisation samples, who is resident, energy.

Owns what the hardware and the driver's ring would hold at a time; must not know NVML's calls, codes or faults. Laws: a
sample names the process that was on the engine at that microsecond; energy never falls
(tests/unit/infra/sim/test_engine.py).
"""

import bisect
from collections.abc import Mapping, Sequence

import numpy as np

from .model import SimGpu, SimProcess
from .timeline import Ints, Lane, Load, Timeline, mixed, seed_of

RING_SAMPLES = 72
SAMPLE_PERIOD_US = 166_667
SAMPLE_JITTER_US = 2_000
CHUNK_SAMPLES = 4096
IDLE_WATTS = 60
BUSY_WATTS = 280
RESERVED_BYTES = 600 << 20
_PHASE_SALT, _JITTER_SALT = 0x51, 0x52


class Engine:
    """A GPU with its processes in order; asked in ascending order of time (the ring) or at random (the rest)."""

    def __init__(
        self, gpu: SimGpu, processes: Sequence[SimProcess], loads: Mapping[str, Load], start_us: int, boot_us: int
    ) -> None:
        self.gpu = gpu
        self.processes = tuple(processes)
        lanes = [Lane(process.start_us, process.end_us, loads[process.load]) for process in processes]
        self.timeline = Timeline(seed_of(gpu.uuid), lanes)
        self._boot_us = boot_us
        self._phase_us = seed_of(gpu.uuid, _PHASE_SALT) % SAMPLE_PERIOD_US
        self._jitter_seed = seed_of(gpu.uuid, _JITTER_SALT)
        self._pids = np.array([*(process.pid for process in processes), 0], np.int64)
        self._next_sample = start_us // SAMPLE_PERIOD_US - RING_SAMPLES - 4
        self._times_us: Ints = np.zeros(0, np.int64)
        self._named: Ints = np.zeros(0, np.int64)
        self._busy_before: Ints = np.zeros(1, np.int64)
        self._edges_us = sorted({p.start_us for p in processes} | {p.end_us for p in processes if p.end_us is not None})
        self._alive: dict[int, tuple[SimProcess, ...]] = {}

    def ring(self, now_us: int) -> tuple[Ints, Ints]:
        """Times and named pids (0: nothing ran) of the samples that the driver holds now, oldest first."""
        newest = self._newest(now_us)
        low = max(0, newest - RING_SAMPLES)
        return self._times_us[low:newest], self._named[low:newest]

    def alive(self, now_us: int) -> tuple[SimProcess, ...]:
        """Processes with a context on this GPU."""
        interval = bisect.bisect_right(self._edges_us, now_us)
        if interval not in self._alive:
            self._alive.clear()
            self._alive[interval] = tuple(
                process
                for process in self.processes
                if process.start_us <= now_us and (process.end_us is None or now_us < process.end_us)
            )
        return self._alive[interval]

    def memory_used_bytes(self, now_us: int) -> int:
        """Memory of all contexts, at most what there is."""
        used = sum(process.memory_bytes for process in self.alive(now_us))
        return min(used, self.gpu.memory_total_bytes - RESERVED_BYTES)

    def energy_mj(self, now_us: int) -> int:
        """Energy since boot: idle power all the time and more for each sample in which something ran."""
        newest = self._newest(now_us)
        busy_us = int(self._busy_before[newest]) * SAMPLE_PERIOD_US
        return (IDLE_WATTS * (now_us - self._boot_us) + BUSY_WATTS * busy_us) // 1000

    def busy_points(self, now_us: int, period_us: int = 1_000_000) -> int:
        """Points of 100 in which something ran over the last period: the driver's gauge."""
        return int(self.timeline.busy_us(now_us - period_us, now_us).sum()) * 100 // period_us

    def _newest(self, now_us: int) -> int:
        """Number of samples in the buffer that are not after now."""
        while not len(self._times_us) or self._times_us[-1] <= now_us:
            self._extend()
        if self._times_us[0] > now_us:
            raise ValueError(f"{self.gpu.uuid} was asked for {now_us}, which its samples have left behind")
        return int(np.searchsorted(self._times_us, now_us, side="right"))

    def _extend(self) -> None:
        """Samples of the next minutes; those that left the ring are let go, their count stays."""
        numbers = np.arange(self._next_sample, self._next_sample + CHUNK_SAMPLES, dtype=np.int64)
        jitter = mixed(self._jitter_seed, numbers.astype(np.uint64)) % np.uint64(2 * SAMPLE_JITTER_US)
        times_us = numbers * SAMPLE_PERIOD_US + self._phase_us + jitter.astype(np.int64) - SAMPLE_JITTER_US
        named = self._pids[self.timeline.owner_at(times_us)]
        keep = max(0, len(self._times_us) - CHUNK_SAMPLES)
        self._times_us = np.concatenate([self._times_us[keep:], times_us])
        self._named = np.concatenate([self._named[keep:], named])
        counts = int(self._busy_before[-1]) + np.cumsum(named > 0)
        self._busy_before = np.concatenate([self._busy_before[keep:], counts])
        self._next_sample += CHUNK_SAMPLES
