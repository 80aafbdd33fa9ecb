"""The exported functions of libnvidia-ml over the simulated driver, as C callbacks that the real pynvml calls.

Owns addresses, sizes and struct layouts (nvml.h); decides nothing. `Library` has one attribute per exported name; a
name that it lacks is FUNCTION_NOT_FOUND to pynvml, as with an older driver. An error inside a callback cannot pass
through C: it is kept in `failure`, the call answers UNKNOWN, and the node process stops on it. Tested in
tests/unit/infra/sim/test_driver.py.
"""

import ctypes
import struct
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

from .driver import (
    ARGUMENT_VERSION_MISMATCH,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    SUCCESS,
    UNINITIALIZED,
    UTILISATION_PROBE_ROWS,
    Answer,
    Device,
    Driver,
)
from .engine import BUSY_WATTS, IDLE_WATTS

UNKNOWN = 999
DRIVER_VERSION = b"580.95.05"
MEMORY_V2 = 0x02000028
_UNSIGNED_INT_VALUES = 1
_TEXTS = {
    0: b"Success", 1: b"Uninitialized", 2: b"Invalid Argument", 3: b"Not Supported", 4: b"Insufficient Permissions",
    6: b"Not Found", 7: b"Insufficient Size", 13: b"Function Not Found", 15: b"GPU is lost",
    25: b"Argument version mismatch", 999: b"Unknown Error",
}  # fmt: skip


def _write_uint(address: int | None, value: int) -> None:
    if address:
        c_uint.from_address(address).value = value


def _write_text(address: int | None, size: int, text: bytes) -> int:
    if not address:
        return INVALID_ARGUMENT
    if len(text) >= size:
        return INSUFFICIENT_SIZE
    ctypes.memmove(address, text + b"\0", len(text) + 1)
    return SUCCESS


class Library:
    """What pynvml takes for the loaded library."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.failure: BaseException | None = None
        self._texts = {code: ctypes.create_string_buffer(text) for code, text in _TEXTS.items()}
        self._export_system()
        self._export_identity()
        self._export_utilisation()
        self._export_gauges()

    def _export(self, name: str, function: Callable[..., int], *kinds: Any) -> None:
        def guarded(*arguments: Any) -> int:
            try:
                return function(*arguments)
            except BaseException as error:  # noqa: BLE001 ctypes would print it and answer 0, success
                self.failure = self.failure or error
                return UNKNOWN

        setattr(self, name, CFUNCTYPE(c_int, *kinds)(guarded))

    def _export_on_device(self, name: str, function: Callable[..., int], *kinds: Any) -> None:
        """A call whose first argument is a handle; `function` gets the device instead."""

        def with_device(handle: int | None, *arguments: Any) -> int:
            status, device = self.driver.device_of(handle)
            return status if device is None else function(device, *arguments)

        self._export(name, with_device, c_void_p, *kinds)

    def _export_system(self) -> None:
        driver = self.driver
        self._export("nvmlInitWithFlags", lambda flags: driver.start(), c_uint)
        self._export("nvmlInit_v2", driver.start)
        self._export("nvmlShutdown", driver.stop)
        # An address, which pynvml reads as a C string: a callback cannot return one without leaking it.
        unknown = self._texts[UNKNOWN]
        kind = CFUNCTYPE(c_void_p, c_int)
        self.nvmlErrorString = kind(lambda code: ctypes.addressof(self._texts.get(code, unknown)))

        def version(address: int | None, size: int) -> int:
            return _write_text(address, size, DRIVER_VERSION) if driver.started else UNINITIALIZED

        self._export("nvmlSystemGetDriverVersion", version, c_void_p, c_uint)
        self._export("nvmlSystemGetNVMLVersion", version, c_void_p, c_uint)

        def count(address: int | None) -> int:
            _write_uint(address, len(driver.devices))
            return SUCCESS if driver.started else UNINITIALIZED

        self._export("nvmlDeviceGetCount_v2", count, c_void_p)

    def _export_identity(self) -> None:
        def by_index(index: int, address: int) -> int:
            status, handle = self.driver.handle_at(index)
            c_ulonglong.from_address(address).value = handle
            return status

        def by_uuid(uuid: bytes | None, address: int) -> int:
            status, handle = self.driver.handle_of_uuid((uuid or b"").decode())
            c_ulonglong.from_address(address).value = handle
            return status

        def index_of(device: Device, address: int) -> int:
            _write_uint(address, device.engine.gpu.index)
            return SUCCESS

        self._export("nvmlDeviceGetHandleByIndex_v2", by_index, c_uint, c_void_p)
        self._export("nvmlDeviceGetHandleByUUID", by_uuid, c_char_p, c_void_p)
        self._export_on_device("nvmlDeviceGetIndex", index_of, c_void_p)
        self._export_on_device("nvmlDeviceGetMinorNumber", index_of, c_void_p)
        self._export_on_device(
            "nvmlDeviceGetUUID", lambda d, at, size: _write_text(at, size, d.engine.gpu.uuid.encode()), c_void_p, c_uint
        )
        self._export_on_device(
            "nvmlDeviceGetName",
            lambda d, at, size: _write_text(at, size, d.engine.gpu.model.encode()),
            c_void_p,
            c_uint,
        )

    def _export_utilisation(self) -> None:
        now_us = self.driver.now_us

        def samples(device: Device, kind: int, last_seen: int, value_type: int, count_at: int, rows_at: int) -> int:
            status, count, rows = device.samples(now_us(), kind, last_seen)
            _write_uint(value_type, _UNSIGNED_INT_VALUES)
            if status != SUCCESS or rows_at:
                return _write_rows((status, count, rows), count_at, rows_at)
            _write_uint(count_at, count)
            return SUCCESS

        def processes(device: Device, rows_at: int, count_at: int, last_seen: int) -> int:
            answer = device.process_utilisation(now_us(), last_seen)
            if not rows_at and answer[0] in (SUCCESS, NOT_FOUND):
                # go-nvml#11: the probe always says 100, also when nothing ran.
                _write_uint(count_at, max(UTILISATION_PROBE_ROWS, answer[1]))
                return INSUFFICIENT_SIZE
            return _write_rows(answer, count_at, rows_at)

        kinds = (c_uint, c_ulonglong, c_void_p, c_void_p, c_void_p)
        self._export_on_device("nvmlDeviceGetSamples", samples, *kinds)
        self._export_on_device("nvmlDeviceGetProcessUtilization", processes, c_void_p, c_void_p, c_ulonglong)
        for name, call in (("compute", "Compute"), ("graphics", "Graphics"), ("mps", "MPSCompute")):

            def listed(device: Device, count_at: int, rows_at: int, name: str = name) -> int:
                return _write_rows(device.listed(now_us(), name), count_at, rows_at)

            self._export_on_device(f"nvmlDeviceGet{call}RunningProcesses_v3", listed, c_void_p, c_void_p)

    def _export_gauges(self) -> None:
        now_us = self.driver.now_us

        def rates(device: Device, address: int) -> int:
            points = device.engine.busy_points(now_us())
            ctypes.memmove(address, struct.pack("=II", points, points // 2), 8)
            return SUCCESS

        def energy(device: Device, address: int) -> int:
            c_ulonglong.from_address(address).value = device.energy_mj(now_us())
            return SUCCESS

        def power(device: Device, address: int) -> int:
            _write_uint(address, 1000 * IDLE_WATTS + 10 * BUSY_WATTS * device.engine.busy_points(now_us()))
            return SUCCESS

        def memory(device: Device, address: int) -> int:
            total, reserved, used = device.memory(now_us())
            ctypes.memmove(address, struct.pack("=QQQ", total, total - used - reserved, used + reserved), 24)
            return SUCCESS

        def memory_v2(device: Device, address: int) -> int:
            if c_uint.from_address(address).value != MEMORY_V2:
                return ARGUMENT_VERSION_MISMATCH
            total, reserved, used = device.memory(now_us())
            ctypes.memmove(address + 8, struct.pack("=QQQQ", total, reserved, total - used - reserved, used), 32)
            return SUCCESS

        def off(device: Device, *addresses: int) -> int:
            for address in addresses:
                _write_uint(address, 0)
            return SUCCESS

        self._export_on_device("nvmlDeviceGetUtilizationRates", rates, c_void_p)
        self._export_on_device("nvmlDeviceGetTotalEnergyConsumption", energy, c_void_p)
        self._export_on_device("nvmlDeviceGetPowerUsage", power, c_void_p)
        self._export_on_device("nvmlDeviceGetMemoryInfo", memory, c_void_p)
        self._export_on_device("nvmlDeviceGetMemoryInfo_v2", memory_v2, c_void_p)
        self._export_on_device("nvmlDeviceGetMigMode", off, c_void_p, c_void_p)
        self._export_on_device("nvmlDeviceGetMaxMigDeviceCount", off, c_void_p)
        self._export_on_device("nvmlDeviceGetVirtualizationMode", off, c_void_p)
        self._export_on_device("nvmlDeviceGetAccountingMode", off, c_void_p)


def _write_rows(answer: Answer, count_at: int, rows_at: int) -> int:
    """Rows into the caller's array of `count` elements, or INSUFFICIENT_SIZE with the number needed."""
    status, count, rows = answer
    if not count_at:
        return INVALID_ARGUMENT
    room = c_uint.from_address(count_at)
    if status != SUCCESS:
        return status
    if count and (not rows_at or room.value < count):
        room.value = count
        return INSUFFICIENT_SIZE
    if rows:
        ctypes.memmove(rows_at, rows, len(rows))
    room.value = count
    return SUCCESS
