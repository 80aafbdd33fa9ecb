"""All devices of a node behind the driver's library: whom to ask, what not to ask again, when to start anew.

Owns handles, capabilities and lost devices. Must not know what an answer is worth: that is sampling.py. Law: a device
that was seen once has an answer in every reading, whatever the driver says (tests/unit/collector/test_driver.py).
"""

import logging
from collections.abc import Mapping

from . import nvml
from .answers import (
    ARGUMENT_VERSION_MISMATCH,
    CONSEQUENCES,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NOT_ASKED,
    RESET_REQUIRED,
    SUCCESS,
    UNKNOWN,
    UNKNOWN_LIMIT,
    Consequence,
    DeviceAnswer,
    ListedProcess,
    consequence_of,
    lost,
)
from .devices import Device, instances, mig_mode
from .errors import Retry, Stop
from .nvml_rows import lists_are_garbled

logger = logging.getLogger(__name__)
PROBE_EVERY = 12
"""Readings between two searches for new MIG instances, and at most for lost devices (1, 2, 4, 8 at first)."""
FORGIVE_EVERY = 60
"""Readings after which a call that was not supported is tried again: a refusal may have been a passing one."""


class Driver:
    """Reads every device; `read` first starts the library or searches for devices where that is due."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._count = 0
        self._due = Consequence.INITIALISE
        self._running = False
        self._readings = 0
        self._probe_wait = 1
        self._probe_at = 0
        self._unknown_readings = 0
        self._lists_garbled = False
        self._unsure: set[str] = set()
        """GPUs of which some instances may not have been found."""

    def read(self, last_seen_us: Mapping[str, int]) -> list[DeviceAnswer]:
        """Answers of every device; utilisation since its last seen sample, a device without one is only primed.

        Retry where the driver is not loaded and no device was ever seen; Stop where only a new process can help.
        """
        self._prepare()
        answers = [self._answer(device, last_seen_us.get(device.uuid)) for device in self._devices.values()]
        self._conclude(answers)
        return answers

    def uuid_of(self, gpu_index: int, gpu_instance_id: int | None) -> str | None:
        """UUID of a GPU or of a MIG instance on it, as the last search found them; None: there is no such device."""
        for device in self._devices.values():
            if device.index == gpu_index and device.gpu_instance_id == gpu_instance_id and not device.status:
                return device.uuid
        return None

    def close(self) -> None:
        """Gives the library back."""
        if self._running:
            nvml.stop()
            self._running = False

    def _prepare(self) -> None:
        self._readings += 1
        if self._due is Consequence.INITIALISE:
            self._initialise()
        if not self._running:
            return
        if self._readings % FORGIVE_EVERY == 0:
            for device in self._devices.values():
                device.off.clear()
        status, count = nvml.device_count()
        if self._due is not Consequence.DATA or status or count != self._count or self._is_probe_due():
            self._search(status, count)
        self._due = Consequence.DATA

    def _is_probe_due(self) -> bool:
        """Whether to search for what is lost or not told (ever more rarely while it stays so) or for new instances."""
        if not self._unsure and not any(device.status for device in self._devices.values()):
            self._probe_wait, self._probe_at = 1, 0
            return self._readings % PROBE_EVERY == 0 and any(d.mig_mode == 1 for d in self._devices.values())
        if self._readings < self._probe_at:
            return False
        self._probe_at = self._readings + self._probe_wait
        self._probe_wait = min(2 * self._probe_wait, PROBE_EVERY)
        return True

    def _initialise(self) -> None:
        self.close()
        status = nvml.start()
        if status == 0:
            self._running = True
            _, version = nvml.text("nvmlSystemGetDriverVersion")
            self._lists_garbled = lists_are_garbled(version)
            logger.info("driver %s", version or "of unknown version")
            return
        if CONSEQUENCES.get(status) is Consequence.END or status == UNKNOWN:
            raise Stop(
                f"the driver's library cannot be used (NVML code {status}): is the NVIDIA driver installed on this "
                "node and libnvidia-ml.so.1 visible here? Then start the node agent anew",
                3,
            )
        if not self._devices:
            raise Retry(f"the driver is not there yet (NVML code {status})")
        for device in self._devices.values():
            device.status = status

    def _search(self, status: int, count: int) -> None:
        """Find all devices anew, by UUID; a GPU seen before and not found stays, as lost, and its instances with it."""
        found: dict[str, Device] = {}
        failed: dict[int, int] = {}
        self._unsure = set()
        for index in range(0 if status else count):
            answer, handle = nvml.device_handle(index)
            if answer == 0:
                answer, uuid = nvml.text("nvmlDeviceGetUUID", handle)
            if answer:
                failed[index] = answer
                continue
            mode = mig_mode(handle, self._devices.get(uuid))
            found[uuid] = Device(uuid, index, nvml.text("nvmlDeviceGetName", handle)[1], handle, mode)
            mine, is_whole = instances(found[uuid], self._devices)
            found |= mine
            if not is_whole:
                self._unsure.add(uuid)
        alive = set(found)
        for uuid, device in self._devices.items():
            if uuid in alive and found[uuid].mig_mode == device.mig_mode and not device.status:
                found[uuid].off = device.off
            if uuid in alive or device.handle is None or (device.parent in alive and not self._may_be(device, found)):
                continue
            if device.parent in found:
                device.status = found[device.parent].status
            else:
                device.status = status or failed.pop(device.index, GPU_IS_LOST)
            found[uuid] = device
        for index, answer in failed.items():
            unknown = f"UNKNOWN-{index}"
            found[unknown] = Device(unknown, index, "", None, -1, answer)
        self._count = 0 if status else count
        self._devices = found

    def _may_be(self, instance: Device, found: Mapping[str, Device]) -> bool:
        """Whether an instance that was not found may be there all the same, and there is room for it."""
        taken = sum(device.slices for device in found.values() if device.parent == instance.parent)
        return instance.parent in self._unsure and taken + instance.slices <= found[instance.parent].slices_total

    def _answer(self, device: Device, last_seen_us: int | None) -> DeviceAnswer:
        if device.status:
            return lost(device, device.status)
        stale = self._stale(device)
        if stale:
            return lost(device, stale)
        since_us = last_seen_us or 0
        self._notice_mig_mode(device)
        samples_status, samples = device.ask("samples", nvml.utilisation_samples, since_us)
        processes_status, processes = NOT_ASKED, None
        if last_seen_us is not None:
            processes_status, processes = device.ask("processes", nvml.process_utilisation, since_us)
            if processes and samples and max(row.time_us for row in processes) > samples[-1].time_us:
                # A sample came between the two calls; both must speak of the same span.
                samples_status, samples = nvml.utilisation_samples(device.handle, since_us)
        lists_status, listed = self._list(device)
        total, used = nvml.memory_bytes(device.handle)
        energy_status, energy_mj = device.ask("energy", nvml.energy_mj)
        return DeviceAnswer(
            device.uuid, device.index, device.model, device.mig_mode,
            samples_status, samples or [], processes_status, processes or [], lists_status, listed,
            total, used, energy_status, energy_mj or 0, device.parent, device.slices, device.slices_total,
        )  # fmt: skip

    @staticmethod
    def _stale(device: Device) -> int:
        """Not 0 where the handle of an instance is of another now: drivers use them again (nvml.h)."""
        if not device.is_instance:
            return SUCCESS
        status, uuid = nvml.text("nvmlDeviceGetUUID", device.handle)
        return status or (SUCCESS if uuid == device.uuid else INVALID_ARGUMENT)

    def _notice_mig_mode(self, device: Device) -> None:
        mode = device.mig_mode if device.is_instance else mig_mode(device.handle, device)
        if mode != device.mig_mode:
            device.mig_mode, self._due = mode, Consequence.ENUMERATE
            device.off.clear()

    def _list(self, device: Device) -> tuple[int, list[ListedProcess]]:
        """Rows of all three lists, and 0 or the first code that was not."""
        if self._lists_garbled:
            return ARGUMENT_VERSION_MISMATCH, []
        first_bad, listed = 0, list[ListedProcess]()
        for bit in nvml.LISTS:
            status, rows = device.ask(bit, nvml.process_list, bit)
            first_bad = first_bad or status
            listed += rows or []
        return first_bad, listed

    def _conclude(self, answers: list[DeviceAnswer]) -> None:
        """What the codes of this reading ask for before the next; Stop where only a new process can help."""
        fresh = [answer for answer in answers if not self._devices[answer.gpu_uuid].status]
        statuses = {status for answer in answers for status in answer.statuses()}
        for answer in fresh:
            gone = next((s for s in answer.statuses() if s in (GPU_IS_LOST, RESET_REQUIRED)), 0)
            self._devices[answer.gpu_uuid].status = gone
        due = consequence_of(statuses - {GPU_IS_LOST, RESET_REQUIRED})
        if due is Consequence.END:
            raise Stop("the driver was replaced under its running library; the node agent must be started anew", 3)
        self._unknown_readings = self._unknown_readings + 1 if UNKNOWN in statuses else 0
        if self._unknown_readings >= UNKNOWN_LIMIT:
            self._unknown_readings, due = 0, Consequence.INITIALISE
        if due is not Consequence.DATA:
            self._due = due
