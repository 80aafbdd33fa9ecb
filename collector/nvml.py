"""The driver's library: the only importer of pynvml. Each function is one NVML call and gives its return code as data.

Rows are read through own buffers with one call each (pynvml probes first and builds an object per row; facts: 735 to
348 us at 200 rows). Decides nothing: what a code asks for is answers.py, who is asked when is driver.py. Tested on a
library made of ctypes callbacks in tests/unit/collector/test_nvml.py.
"""

from ctypes import byref, c_uint, c_ulonglong
from typing import Any

import pynvml  # type: ignore[import-untyped]

from .answers import (
    ARGUMENT_VERSION_MISMATCH,
    COMPUTE,
    FUNCTION_NOT_FOUND,
    GRAPHICS,
    INVALID_ARGUMENT,
    MPS,
    NOT_FOUND,
    NOT_SUPPORTED,
    ListedProcess,
    ProcessUtilisation,
    UtilisationSample,
)
from .nvml_rows import LIST_ROW, PROCESS_ROW, SAMPLE_ROW, RowBuffer, sample_layout

LISTS = {
    COMPUTE: "nvmlDeviceGetComputeRunningProcesses_v3",
    GRAPHICS: "nvmlDeviceGetGraphicsRunningProcesses_v3",
    MPS: "nvmlDeviceGetMPSComputeRunningProcesses_v3",
}
_GPU_UTILIZATION_SAMPLES = c_uint(1)
_ABSENT_ID = 0xFFFFFFFF
_ABSENT_MEMORY = 0xFFFFFFFFFFFFFFFF
_samples = RowBuffer(SAMPLE_ROW)
_processes = RowBuffer(PROCESS_ROW)
_listed = RowBuffer(LIST_ROW)


def use(library: object) -> None:
    """Takes `library`, an object with the driver's functions as attributes, for the system's; before `start`."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()


def call(name: str, *arguments: Any) -> int:
    """Return code of an NVML function; 13 where the driver does not have it."""
    try:
        function = pynvml._nvmlGetFunctionPointer(name)
    except pynvml.NVMLError as error:
        return int(error.value)
    return int(function(*arguments))


def start() -> int:
    """Loads the library where it is not loaded yet (it never is unloaded) and initialises it."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return int(error.value)
    return 0


def stop() -> int:
    """Gives the library back."""
    return call("nvmlShutdown")


def text(name: str, *arguments: Any) -> tuple[int, str]:
    """Code and the text that a function writes into a buffer of 96 bytes."""
    buffer = pynvml.create_string_buffer(96)
    status = call(name, *arguments, buffer, c_uint(96))
    return status, "" if status else buffer.value.decode("utf-8", "replace")


def device_count() -> tuple[int, int]:
    """Code and number of GPUs."""
    count = c_uint()
    return call("nvmlDeviceGetCount_v2", byref(count)), count.value


def device_handle(index: int) -> tuple[int, Any]:
    """Code and handle of a GPU."""
    handle = pynvml.c_nvmlDevice_t()
    return call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle)), handle


def instance_handles(handle: Any) -> tuple[int, list[Any]]:
    """Handles of a GPU's MIG instances, whose index has holes, and 0 or a code for which there may be more."""
    count = c_uint()
    status = call("nvmlDeviceGetMaxMigDeviceCount", handle, byref(count))
    found = []
    for index in range(0 if status else count.value):
        instance = pynvml.c_nvmlDevice_t()
        answer = call("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(index), byref(instance))
        if answer == 0:
            found.append(instance)
        elif answer not in (NOT_FOUND, INVALID_ARGUMENT):
            status = answer
    return status, found


def gpu_instance_id(handle: Any) -> int | None:
    """Id of the GPU instance that a MIG handle stands for."""
    instance = c_uint()
    return None if call("nvmlDeviceGetGpuInstanceId", handle, byref(instance)) else instance.value


def slices(handle: Any) -> tuple[int, int]:
    """Code and compute slices of a MIG instance; of one compute instance, where several share a GPU instance."""
    attributes = pynvml.c_nvmlDeviceAttributes()
    status = call("nvmlDeviceGetAttributes_v2", handle, byref(attributes))
    return status, 0 if status else int(attributes.computeInstanceSliceCount)


def most_slices(handle: Any) -> int | None:
    """Compute slices of a whole GPU in MIG mode (7, or 4): those of its largest profile."""
    profile, largest = pynvml.c_nvmlGpuInstanceProfileInfo_t(), 0
    for kind in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        if call("nvmlDeviceGetGpuInstanceProfileInfo", handle, c_uint(kind), byref(profile)) == 0:
            largest = max(largest, int(profile.sliceCount))
    return largest or None


def mig_mode(handle: Any) -> int:
    """1 MIG, 0 not or not possible, -1 not known."""
    current, pending = c_uint(), c_uint()
    status = call("nvmlDeviceGetMigMode", handle, byref(current), byref(pending))
    if status in (NOT_SUPPORTED, FUNCTION_NOT_FOUND):
        return 0
    return -1 if status else current.value


def utilisation_samples(handle: Any, since_us: int) -> tuple[int, list[UtilisationSample]]:
    """Code and the device's samples after `since_us`, by time; 0: all that the ring holds."""
    value_type, since = c_uint(), c_ulonglong(since_us)
    status, count = _samples.fill(
        lambda n, rows: call(
            "nvmlDeviceGetSamples", handle, _GPU_UTILIZATION_SAMPLES, since, byref(value_type), n, rows
        )
    )
    rows = _samples.rows(count, sample_layout(value_type.value))
    return status, sorted(UtilisationSample(time_us, int(value)) for time_us, value in rows)


def process_utilisation(handle: Any, since_us: int) -> tuple[int, list[ProcessUtilisation]]:
    """Code and one row for each process that samples after `since_us` name."""
    since = c_ulonglong(since_us)
    status, count = _processes.fill(lambda n, rows: call("nvmlDeviceGetProcessUtilization", handle, rows, n, since))
    return status, [ProcessUtilisation(*row) for row in _processes.rows(count)]


def process_list(handle: Any, list_bit: int) -> tuple[int, list[ListedProcess]]:
    """Code and rows of one of the three process lists."""
    name = LISTS[list_bit]
    status, count = _listed.fill(lambda n, rows: call(name, handle, n, rows))
    return status, [
        ListedProcess(pid, None if memory == _ABSENT_MEMORY else memory, _id(instance), _id(compute), list_bit)
        for pid, memory, instance, compute in _listed.rows(count)
    ]


def energy_mj(handle: Any) -> tuple[int, int]:
    """Code and the energy counter, millijoules since the driver was loaded."""
    energy = c_ulonglong()
    return call("nvmlDeviceGetTotalEnergyConsumption", handle, byref(energy)), energy.value


def memory_bytes(handle: Any) -> tuple[int, int]:
    """Total and used bytes, -1 each where not known; version 2 leaves reserved memory out of what is used."""
    newer = pynvml.c_nvmlMemory_v2_t()
    newer.version = pynvml.nvmlMemory_v2
    status = call("nvmlDeviceGetMemoryInfo_v2", handle, byref(newer))
    if status == 0:
        return int(newer.total), int(newer.used)
    older = pynvml.c_nvmlMemory_t()
    if status in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
        status = call("nvmlDeviceGetMemoryInfo", handle, byref(older))
    return (-1, -1) if status else (int(older.total), int(older.used))


def _id(value: int) -> int:
    return -1 if value == _ABSENT_ID else value
