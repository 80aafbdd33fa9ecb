"""The driver's behaviour: return codes, rows, size probes and faults of the NVML calls, over simulated engines.

Owns NVML's semantics as the real driver shows them (nvml.h; the size probes as pynvml needs them); must not know how
a caller reaches it: that is library.py. Law: through the real pynvml it answers as real drivers were reported to
(tests/unit/infra/sim/test_driver.py).
"""

import struct
import time
from collections.abc import Callable, Sequence

from .engine import RESERVED_BYTES, Engine
from .model import SimProcess
from .workload import Divisor, Fault, FaultKind

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 1, 2, 3, 4
NOT_FOUND, INSUFFICIENT_SIZE, GPU_IS_LOST, ARGUMENT_VERSION_MISMATCH = 6, 7, 15, 25
GPU_UTILIZATION_SAMPLES = 1
UTILISATION_PROBE_ROWS = 100
LIST_BITS = {"compute": 1, "graphics": 2, "mps": 4}
HANG_SECONDS = 20.0
_HANDLE_BASE = 0x7000_0000
_PROCESS_ROW = struct.Struct("=I4xQIIII")
_LIST_ROW = struct.Struct("=I4xQII")
_SAMPLE_ROW = struct.Struct("=QI4x")
_NO_INSTANCE = 0xFFFFFFFF
# nvtop#110 (a zombie's values, then rows of zeros) and DCGM#83 (DCGM's blank).
BAD_ROWS = (
    (0, 0, 5, 0, 0, 0),
    (50554, 217144956601725, 37100, 30000, 0, 0),
    (50555, 0, 2147483632, 2147483632, 0, 0),
    *(((0, 0, 0, 0, 0, 0),) * 60),
)

Answer = tuple[int, int, bytes]
"""Return code, count to report, rows to write."""


class Device:
    """The calls on one GPU, at the clock's now."""

    def __init__(self, engine: Engine, faults: Sequence[Fault], divisor: Divisor, live: bool) -> None:
        self.engine = engine
        self._faults = tuple(fault for fault in faults if fault.gpu_uuid == engine.gpu.uuid)
        self._divisor = divisor
        self._live = live
        self._energy_at: dict[Fault, int] = {}
        self._listed: dict[str, tuple[tuple[SimProcess, ...], bytes]] = {}

    def has(self, kind: FaultKind, now_us: int) -> bool:
        """Whether a fault is on now."""
        return any(fault.kind == kind and fault.start_us <= now_us < fault.end_us for fault in self._faults)

    def lost(self, now_us: int) -> bool:
        """Whether the device is off the bus; a hanging device first keeps the caller waiting (live only)."""
        if not self._faults:
            return False
        if self._live and self.has("hang", now_us):
            time.sleep(HANG_SECONDS)
        return self.has("device_lost", now_us)

    def samples(self, now_us: int, kind: int, last_seen_us: int) -> Answer:
        """Utilisation samples newer than last seen; NOT_FOUND: none."""
        if kind != GPU_UTILIZATION_SAMPLES:
            return NOT_SUPPORTED, 0, b""
        times, named = self.engine.ring(now_us)
        first = int(times.searchsorted(last_seen_us, side="right"))
        if first == len(times):
            return NOT_FOUND, 0, b""
        pairs = zip(times[first:].tolist(), named[first:].tolist(), strict=True)
        rows = b"".join([_SAMPLE_ROW.pack(time_us, 100 if pid else 0) for time_us, pid in pairs])
        return SUCCESS, len(times) - first, rows

    def process_utilisation(self, now_us: int, last_seen_us: int) -> Answer:
        """A row for each process that a newer sample names, its points floored; NOT_FOUND: nothing ran."""
        if self._faults and self.has("process_util_not_supported", now_us):
            return NOT_SUPPORTED, 0, b""
        if self._faults and self.has("process_util_no_permission", now_us):
            return NO_PERMISSION, 0, b""
        times, named = self.engine.ring(now_us)
        first = int(times.searchsorted(last_seen_us, side="right"))
        found: dict[int, list[int]] = {}
        for time_us, pid in zip(times[first:].tolist(), named[first:].tolist(), strict=True):
            if pid:
                row = found.setdefault(pid, [0, 0])
                row[0] += 1
                row[1] = time_us
        total = len(times) - first if self._divisor == "all" else sum(count for count, _ in found.values())
        rows = [
            _PROCESS_ROW.pack(pid, time_us, 100 * count // total, 50 * count // total, 0, 0)
            for pid, (count, time_us) in found.items()
        ]
        if self._faults and self.has("bad_rows", now_us):
            rows += [_PROCESS_ROW.pack(*row) for row in BAD_ROWS]
        return (SUCCESS, len(rows), b"".join(rows)) if rows else (NOT_FOUND, 0, b"")

    def listed(self, now_us: int, name: str) -> Answer:
        """Rows of one process list: everyone with a context, working or not."""
        alive = self.engine.alive(now_us)
        known = self._listed.get(name)
        if known is None or known[0] is not alive:
            rows = [
                _LIST_ROW.pack(process.pid, process.memory_bytes, _NO_INSTANCE, _NO_INSTANCE)
                for process in alive
                if process.lists & LIST_BITS[name]
            ]
            known = self._listed[name] = (alive, b"".join(rows))
        return SUCCESS, len(known[1]) // _LIST_ROW.size, known[1]

    def energy_mj(self, now_us: int) -> int:
        """Energy since boot or since the last reset."""
        for fault in self._faults:
            if fault.kind == "energy_reset" and fault.start_us <= now_us and fault not in self._energy_at:
                self._energy_at[fault] = self.engine.energy_mj(fault.start_us)
        return self.engine.energy_mj(now_us) - max(self._energy_at.values(), default=0)

    def memory(self, now_us: int) -> tuple[int, int, int]:
        """Total, reserved and used bytes."""
        return self.engine.gpu.memory_total_bytes, RESERVED_BYTES, self.engine.memory_used_bytes(now_us)


class Driver:
    """All devices of a node, by handle."""

    def __init__(
        self,
        engines: Sequence[Engine],
        now_us: Callable[[], int],
        faults: Sequence[Fault] = (),
        divisor: Divisor = "all",
        live: bool = False,
    ) -> None:
        self.now_us = now_us
        self.devices = [Device(engine, faults, divisor, live) for engine in engines]
        self._started = 0

    def start(self) -> int:
        """Counts a start."""
        self._started += 1
        return SUCCESS

    def stop(self) -> int:
        """Counts a stop; UNINITIALIZED without a start."""
        if not self._started:
            return UNINITIALIZED
        self._started -= 1
        return SUCCESS

    @property
    def started(self) -> bool:
        """Whether it was started more often than stopped."""
        return self._started > 0

    def device_of(self, handle: int | None) -> tuple[int, Device | None]:
        """Return code and device of a handle: not started, no such handle, lost, or 0."""
        if not self._started:
            return UNINITIALIZED, None
        index = ((handle or 0) - _HANDLE_BASE) // 16
        if not handle or not 0 <= index < len(self.devices):
            return INVALID_ARGUMENT, None
        device = self.devices[index]
        return (GPU_IS_LOST, None) if device.lost(self.now_us()) else (SUCCESS, device)

    def handle_at(self, index: int) -> tuple[int, int]:
        """Return code and handle of an index."""
        if not self._started:
            return UNINITIALIZED, 0
        if not 0 <= index < len(self.devices):
            return INVALID_ARGUMENT, 0
        return (GPU_IS_LOST, 0) if self.devices[index].lost(self.now_us()) else (SUCCESS, _HANDLE_BASE + 16 * index)

    def handle_of_uuid(self, uuid: str) -> tuple[int, int]:
        """Return code and handle of a UUID; NOT_FOUND where no device has it."""
        if not self._started:
            return UNINITIALIZED, 0
        for index, device in enumerate(self.devices):
            if device.engine.gpu.uuid == uuid:
                return self.handle_at(index)
        return NOT_FOUND, 0
