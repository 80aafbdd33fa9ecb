"""A driver's library written in Python: what each function answers is the test's to say."""

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from ctypes import _Pointer, addressof, c_size_t, c_void_p, cast, memmove
from typing import Any

import pytest

from collector import nvml


class ScriptedGpu:
    """A GPU of the scripted library; rows are what the driver would write."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.samples: list[tuple[int, int]] = []
        self.utilisation: list[tuple[int, int, int, int, int, int]] = []
        self.compute: list[tuple[int, int, int, int]] = []
        self.graphics: list[tuple[int, int, int, int]] = []
        self.mps: list[tuple[int, int, int, int]] = []
        self.energy_mj = 1000
        self.mig_mode = 0
        self.instances: list[ScriptedGpu] = []
        self.gpu_instance_id = 0
        self.slices = 1
        self.slices_total = 7


class ScriptedLibrary:
    """Functions as attributes, as pynvml looks them up; `codes` overrides an answer, for all GPUs or one."""

    def __init__(self) -> None:
        self.gpus: list[ScriptedGpu] = []
        self.codes: dict[str | tuple[str, str], int] = {}
        self.missing: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.driver_version = "580.95.05"

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name in self.missing or not name.startswith("nvml"):
            raise AttributeError(name)
        handler = getattr(type(self), f"on_{name.removesuffix('_v2').removesuffix('_v3')}", None)
        if handler is None:
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            self.calls[name] += 1
            first = self._gpu(arguments[0]) if arguments else None
            if first is None and arguments and handle_number(arguments[0]):
                return 2  # INVALID_ARGUMENT: a handle of what is no longer there
            code = self.codes.get((name, first.uuid)) if first else None
            code = self.codes.get(name) if code is None else code
            return int(handler(self, *arguments)) if code is None else code

        return function

    def _gpu(self, handle: Any) -> ScriptedGpu | None:
        number = handle_number(handle)
        every = [*self.gpus, *(one for gpu in self.gpus for one in gpu.instances)]
        return every[number - 1] if 0 < number <= len(every) else None

    def _number(self, gpu: ScriptedGpu) -> int:
        every = [*self.gpus, *(one for each in self.gpus for one in each.instances)]
        return every.index(gpu) + 1

    def on_nvmlInitWithFlags(self, flags: Any) -> int:
        return 0

    def on_nvmlShutdown(self) -> int:
        return 0

    def on_nvmlSystemGetDriverVersion(self, buffer: Any, size: Any) -> int:
        buffer.value = self.driver_version.encode()
        return 0

    def on_nvmlDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return 0

    def on_nvmlDeviceGetHandleByIndex(self, index: Any, handle: Any) -> int:
        set_handle(handle._obj, index.value + 1)
        return 0

    def on_nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:
        count._obj.value = 7
        return 0

    def on_nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, found: Any) -> int:
        instances = self._known(handle).instances
        if index.value >= len(instances):
            return 6
        set_handle(found._obj, self._number(instances[index.value]))
        return 0

    def on_nvmlDeviceGetGpuInstanceId(self, handle: Any, instance: Any) -> int:
        instance._obj.value = self._known(handle).gpu_instance_id
        return 0

    def on_nvmlDeviceGetAttributes(self, handle: Any, attributes: Any) -> int:
        attributes._obj.gpuInstanceSliceCount = attributes._obj.computeInstanceSliceCount = self._known(handle).slices
        return 0

    def on_nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Any, kind: Any, profile: Any) -> int:
        slices = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}.get(kind.value)
        if slices is None or slices > self._known(handle).slices_total:
            return 3
        profile._obj.sliceCount = slices
        return 0

    def on_nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> int:
        buffer.value = self._known(handle).uuid.encode()
        return 0

    def on_nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> int:
        buffer.value = b"NVIDIA H100"
        return 0

    def on_nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:
        current._obj.value = self._known(handle).mig_mode
        return 0

    def on_nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:
        memory._obj.total, memory._obj.used = 80 << 30, 9 << 30
        return 0

    def on_nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        energy._obj.value = self._known(handle).energy_mj
        return 0

    def on_nvmlDeviceGetSamples(self, handle: Any, kind: Any, since: Any, value: Any, count: Any, rows: Any) -> int:
        value._obj.value = 1
        found = [row for row in self._known(handle).samples if row[0] > since.value]
        return self._write(count, rows, [struct.pack("=QI4x", *row) for row in found]) if found else 6

    def on_nvmlDeviceGetProcessUtilization(self, handle: Any, rows: Any, count: Any, since: Any) -> int:
        found = [row for row in self._known(handle).utilisation if row[1] > since.value]
        return self._write(count, rows, [struct.pack("=I4xQIIII", *row) for row in found]) if found else 6

    def on_nvmlDeviceGetComputeRunningProcesses(self, handle: Any, count: Any, rows: Any) -> int:
        return self._write(count, rows, [struct.pack("=I4xQII", *row) for row in self._known(handle).compute])

    def on_nvmlDeviceGetGraphicsRunningProcesses(self, handle: Any, count: Any, rows: Any) -> int:
        return self._write(count, rows, [struct.pack("=I4xQII", *row) for row in self._known(handle).graphics])

    def on_nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Any, count: Any, rows: Any) -> int:
        return self._write(count, rows, [struct.pack("=I4xQII", *row) for row in self._known(handle).mps])

    def _known(self, handle: Any) -> ScriptedGpu:
        gpu = self._gpu(handle)
        assert gpu is not None
        return gpu

    @staticmethod
    def _write(count: Any, rows: Any, written: list[bytes]) -> int:
        room, count._obj.value = count._obj.value, len(written)
        if len(written) > room:
            return 7
        data = b"".join(written)
        memmove(rows, data, len(data))
        return 0


def handle_number(handle: Any) -> int:
    """The number in a handle, which to ctypes is a pointer; 0 for what is no handle."""
    return int(cast(handle, c_void_p).value or 0) if isinstance(handle, _Pointer) else 0


def set_handle(handle: Any, number: int) -> None:
    """Puts a number into a handle."""
    c_size_t.from_address(addressof(handle)).value = number


@pytest.fixture
def library() -> Iterator[ScriptedLibrary]:
    """The scripted library under pynvml, with one GPU."""
    scripted = ScriptedLibrary()
    scripted.gpus.append(ScriptedGpu("GPU-0"))
    nvml.use(scripted)
    yield scripted
    nvml.use(None)


@pytest.fixture
def new_gpu() -> type[ScriptedGpu]:
    """Makes GPUs for the scripted library."""
    return ScriptedGpu
