"""What the driver said, as plain data, and what each return code asks the agent to do.

A call's answer is its NVML return code and, where that is 0, its rows. Knows neither NVML nor time. Law: every code
has exactly one consequence, and an unknown code is counted, never taken for an empty answer
(tests/unit/collector/test_answers.py; table of codes: nvml.h).
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

SUCCESS = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999
NOT_ASKED = -1

COMPUTE, GRAPHICS, MPS = 1, 2, 4


class UtilisationSample(NamedTuple):
    """One sample of the device's ring: the driver's time, points of 100."""

    time_us: int
    points: int


class ProcessUtilisation(NamedTuple):
    """One row of nvmlDeviceGetProcessUtilization; `time_us` is the last sample that named the process."""

    pid: int
    time_us: int
    sm_points: int
    mem_points: int
    enc_points: int
    dec_points: int


class ListedProcess(NamedTuple):
    """One row of a process list; memory is None where the driver says it is not available."""

    pid: int
    memory_bytes: int | None
    gpu_instance_id: int
    compute_instance_id: int
    list_bit: int


class DeviceAnswer(NamedTuple):
    """Everything the driver said about one device in one reading."""

    gpu_uuid: str
    gpu_index: int
    gpu_model: str
    mig_mode: int
    samples_status: int
    samples: list[UtilisationSample]
    processes_status: int
    processes: list[ProcessUtilisation]
    lists_status: int
    listed: list[ListedProcess]
    memory_total_bytes: int
    memory_used_bytes: int
    energy_status: int
    energy_mj: int
    parent_uuid: str = ""
    slices: int = 1
    slices_total: int = 1
    """Of a MIG instance and of a GPU in MIG mode; 1 where the driver does not tell."""

    def statuses(self) -> tuple[int, ...]:
        """Return codes of all its calls."""
        return (self.samples_status, self.processes_status, self.lists_status, self.energy_status)


class Known(Protocol):
    """What is known of a device without asking it."""

    uuid: str
    index: int
    model: str
    mig_mode: int
    parent: str
    slices: int
    slices_total: int


def lost(device: Known, status: int) -> DeviceAnswer:
    """The answer of a device that none of the calls reached: every call has `status`, the rest is the last known."""
    return DeviceAnswer(
        device.uuid, device.index, device.model, device.mig_mode, status, [], status, [], status, [], -1, -1, status, 0,
        device.parent, device.slices, device.slices_total,
    )  # fmt: skip


class Consequence(Enum):
    """What a return code asks of the agent."""

    DATA = "the code is the answer; go on"
    CAPABILITY_OFF = "do not ask again until the device's mode or the driver changes"
    ENUMERATE = "handles are stale: find the devices again"
    INITIALISE = "the library lost its state: shut it down and start it again"
    END = "only a new process can help"


CONSEQUENCES = {
    UNINITIALIZED: Consequence.INITIALISE,
    INVALID_ARGUMENT: Consequence.ENUMERATE,
    NOT_SUPPORTED: Consequence.CAPABILITY_OFF,
    DRIVER_NOT_LOADED: Consequence.INITIALISE,
    LIBRARY_NOT_FOUND: Consequence.END,
    FUNCTION_NOT_FOUND: Consequence.CAPABILITY_OFF,
    GPU_IS_LOST: Consequence.ENUMERATE,
    RESET_REQUIRED: Consequence.ENUMERATE,
    LIB_RM_VERSION_MISMATCH: Consequence.END,
}
"""Codes that are not here are data: NO_PERMISSION, NOT_FOUND, NO_DATA, TIMEOUT, IN_USE, OPERATING_SYSTEM, ...; UNKNOWN
is data until it came three readings in a row (UNKNOWN_LIMIT)."""
UNKNOWN_LIMIT = 3
_ORDER = (Consequence.END, Consequence.INITIALISE, Consequence.ENUMERATE)


def consequence_of(statuses: Iterable[int]) -> Consequence:
    """The gravest consequence of a reading's return codes; DATA where none asks for more."""
    seen = {CONSEQUENCES.get(status, Consequence.DATA) for status in statuses}
    return next((grave for grave in _ORDER if grave in seen), Consequence.DATA)
