"""A driver that replays fixed rows: ctypes callbacks without numpy, so that its memory is not taken for the agent's.

Counts its own time, to be subtracted. Not a simulation: every process has the same share for ever. Rows have the real
layouts and the real clock, so the agent's work is the real one.
"""

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

SUCCESS, NOT_FOUND = 0, 6
SAMPLE_PERIOD_US = 166_667
RING_SAMPLES = 72
UNSIGNED_INT = 1
ALL_ONES = 0xFFFFFFFF


class ReplayGpu:
    """A GPU with its processes; `pids` share it evenly."""

    def __init__(self, uuid: str, pids: Sequence[int]) -> None:
        self.uuid = uuid.encode()
        self.pids = list(pids)
        self.lists = b"".join(struct.pack("=I4xQII", pid, 7 << 30, ALL_ONES, ALL_ONES) for pid in pids)


class ReplayLibrary:
    """What pynvml takes for the loaded library; `spent_ns` is the time inside its functions."""

    def __init__(self, gpus: Sequence[ReplayGpu]) -> None:
        self.spent_ns = 0
        self._gpus = gpus
        self._export("nvmlInitWithFlags", lambda flags: SUCCESS, c_uint)
        self._export("nvmlShutdown", lambda: SUCCESS)
        self._export("nvmlDeviceGetCount_v2", lambda at: _put(c_uint, at, len(gpus)), c_void_p)
        self._export("nvmlDeviceGetHandleByIndex_v2", lambda i, at: _put(c_ulonglong, at, i + 1), c_uint, c_void_p)
        self._export("nvmlDeviceGetUUID", lambda h, at, size: _text(at, gpus[h - 1].uuid), c_void_p, c_void_p, c_uint)
        self._export("nvmlDeviceGetName", lambda h, at, size: _text(at, b"NVIDIA H100"), c_void_p, c_void_p, c_uint)
        self._export("nvmlDeviceGetMigMode", lambda h, now, later: _put(c_uint, now, 0), *[c_void_p] * 3)
        self._export("nvmlDeviceGetMemoryInfo_v2", self._memory, c_void_p, c_void_p)
        self._export("nvmlDeviceGetTotalEnergyConsumption", self._energy, c_void_p, c_void_p)
        self._export("nvmlDeviceGetSamples", self._samples, c_void_p, c_uint, c_ulonglong, c_void_p, c_void_p, c_void_p)
        self._export("nvmlDeviceGetProcessUtilization", self._processes, c_void_p, c_void_p, c_void_p, c_ulonglong)
        self._export("nvmlDeviceGetComputeRunningProcesses_v3", self._compute, c_void_p, c_void_p, c_void_p)
        for empty in ("Graphics", "MPSCompute"):
            self._export(
                f"nvmlDeviceGet{empty}RunningProcesses_v3", lambda h, n, rows: _put(c_uint, n, 0), *[c_void_p] * 3
            )

    def _export(self, name: str, function: Callable[..., int], *kinds: Any) -> None:
        def timed(*arguments: Any) -> int:
            begin = time.perf_counter_ns()
            status = function(*arguments)
            self.spent_ns += time.perf_counter_ns() - begin
            return status

        setattr(self, name, CFUNCTYPE(c_int, *kinds)(timed))

    def _memory(self, handle: int, at: int) -> int:
        ctypes.memmove(at + 8, struct.pack("=QQQQ", 80 << 30, 1 << 30, 9 << 30, 70 << 30), 32)
        return SUCCESS

    def _energy(self, handle: int, at: int) -> int:
        return _put(c_ulonglong, at, _now_us() // 4)

    def _samples(self, handle: int, kind: int, since: int, type_at: int, count_at: int, rows_at: int) -> int:
        times = _times(since)
        _put(c_uint, type_at, UNSIGNED_INT)
        return _rows(count_at, rows_at, b"".join(struct.pack("=QI4x", at, 60) for at in times), len(times))

    def _processes(self, handle: int, rows_at: int, count_at: int, since: int) -> int:
        times = _times(since)
        pids = self._gpus[handle - 1].pids if times else []
        rows = [struct.pack("=I4xQIIII", pid, times[-1 - n % len(times)], 6, 3, 0, 0) for n, pid in enumerate(pids)]
        return _rows(count_at, rows_at, b"".join(rows), len(rows))

    def _compute(self, handle: int, count_at: int, rows_at: int) -> int:
        gpu = self._gpus[handle - 1]
        return _rows(count_at, rows_at, gpu.lists, len(gpu.pids))


def _now_us() -> int:
    return time.time_ns() // 1000


def _times(since_us: int) -> list[int]:
    """Times of the ring's samples after `since_us`."""
    newest = _now_us() // SAMPLE_PERIOD_US
    oldest = max(newest - RING_SAMPLES, since_us // SAMPLE_PERIOD_US)
    return [tick * SAMPLE_PERIOD_US for tick in range(oldest + 1, newest + 1)]


def _put(kind: Any, address: int, value: int) -> int:
    kind.from_address(address).value = value
    return SUCCESS


def _text(address: int, text: bytes) -> int:
    ctypes.memmove(address, text + b"\0", len(text) + 1)
    return SUCCESS


def _rows(count_at: int, rows_at: int, rows: bytes, count: int) -> int:
    if not count:
        return NOT_FOUND
    ctypes.memmove(rows_at, rows, len(rows))
    return _put(c_uint, count_at, count)
