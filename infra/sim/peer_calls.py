"""The only importer of pynvml in infra/: puts the simulated library under it, and asks as other meters ask.

Knows no simulation: the same calls work on a real driver. Tested in tests/unit/infra/sim/test_driver.py.
"""

from typing import NamedTuple

import pynvml  # type: ignore[import-untyped]

from .library import Library


class PeerProcess(NamedTuple):
    """A row of nvmlDeviceGetProcessUtilization."""

    pid: int
    time_us: int
    sm_util_points: int


def install(library: Library) -> None:
    """Makes the unmodified pynvml call `library`; one library for the life of a process."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()


class PeerDevices:
    """The devices of the node, as a dcgm-exporter or Kepler would see them; None where a call failed."""

    def __init__(self) -> None:
        pynvml.nvmlInit()
        self.count = int(pynvml.nvmlDeviceGetCount())

    def uuid(self, index: int) -> str | None:
        """UUID of a device."""
        try:
            return str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index)))
        except pynvml.NVMLError:
            return None

    def gauge_points(self, index: int) -> int | None:
        """The device's utilisation gauge, points of 100."""
        try:
            return int(pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(index)).gpu)
        except pynvml.NVMLError:
            return None

    def process_rows(self, index: int) -> list[PeerProcess] | None:
        """All process rows that the driver holds (lastSeen 0); empty where nothing ran."""
        try:
            rows = pynvml.nvmlDeviceGetProcessUtilization(pynvml.nvmlDeviceGetHandleByIndex(index), 0)
        except pynvml.NVMLError as error:
            return [] if error.value == pynvml.NVML_ERROR_NOT_FOUND else None
        return [PeerProcess(int(row.pid), int(row.timeStamp), int(row.smUtil)) for row in rows]

    def close(self) -> None:
        """Gives the library back."""
        pynvml.nvmlShutdown()
