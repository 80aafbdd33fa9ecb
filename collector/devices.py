"""A GPU or MIG instance as the last search found it, and the search for a GPU's instances.

Tested in tests/unit/collector/test_driver.py.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from . import nvml
from .answers import CONSEQUENCES, Consequence

V = TypeVar("V")


class Device:
    """A GPU or MIG instance; `off` holds the calls that it does not support.

    `parent` is the UUID of an instance's GPU, empty for a GPU; `slices` of `slices_total` compute slices are an
    instance's, all of them a GPU's in MIG mode; both are 1 outside MIG and where the driver does not tell.
    """

    def __init__(self, uuid: str, index: int, model: str, handle: Any, mig_mode: int, status: int = 0) -> None:
        self.uuid = uuid
        self.index = index
        self.model = model
        self.handle = handle
        self.mig_mode = mig_mode
        self.status = status
        self.gpu_instance_id: int | None = None
        self.parent = ""
        self.slices = self.slices_total = 1
        self.off: dict[object, int] = {}

    @property
    def is_instance(self) -> bool:
        """Whether it is a MIG instance and not a whole GPU."""
        return self.uuid.startswith("MIG-")

    def ask(self, capability: object, call: Callable[..., tuple[int, V]], *arguments: object) -> tuple[int, V | None]:
        """Code and value of a call on this device; not made again, and None, where it was not supported."""
        known = self.off.get(capability)
        if known is not None:
            return known, None
        status, value = call(self.handle, *arguments)
        if CONSEQUENCES.get(status) is Consequence.CAPABILITY_OFF:
            self.off[capability] = status
        return status, value


def mig_mode(handle: Any, before: Device | None) -> int:
    """MIG mode of a GPU, the last known where the call does not answer: its instances must not come and go with it."""
    mode = nvml.mig_mode(handle)
    return before.mig_mode if mode < 0 and before is not None else mode


def instances(parent: Device, before: Mapping[str, Device]) -> tuple[dict[str, Device], bool]:
    """MIG instances of a GPU by UUID, and whether these are all; `before`: what the last search found.

    They have slices where those of all are known. One whose size is not told for now is left out, and looked for again.
    """
    found: dict[str, Device] = {}
    if parent.mig_mode != 1:
        return found, True
    failed, handles = nvml.instance_handles(parent.handle)
    for handle in handles:
        status, uuid = nvml.text("nvmlDeviceGetUUID", handle)
        failed = failed or status
        if status == 0:
            found[uuid] = Device(uuid, parent.index, parent.model, handle, 1)
            found[uuid].gpu_instance_id = nvml.gpu_instance_id(handle)
            found[uuid].parent = parent.uuid
    unsized = _measure(parent, found, before)
    return {uuid: device for uuid, device in found.items() if uuid not in unsized}, not failed and not unsized


def _measure(parent: Device, found: dict[str, Device], before: Mapping[str, Device]) -> list[str]:
    """Fills in slices, and gives the UUIDs of those whose size the driver may tell later.

    The sizes of what is known never change. Where the driver cannot tell some, none of the GPU's have any.
    """
    known = before.get(parent.uuid)
    total = known.slices_total if known and known.slices_total > 1 else nvml.most_slices(parent.handle)
    sizes: dict[str, int] = {}
    unsized = []
    for uuid, device in found.items():
        known = before.get(uuid)
        status, slices = (0, known.slices) if known and known.slices_total > 1 else nvml.slices(device.handle)
        if status and CONSEQUENCES.get(status) is not Consequence.CAPABILITY_OFF:
            unsized.append(uuid)
        elif slices:
            sizes[uuid] = slices
    if total is None or len(sizes) + len(unsized) < len(found) or sum(sizes.values()) > total:
        return []
    parent.slices = parent.slices_total = total
    for uuid, slices in sizes.items():
        found[uuid].slices, found[uuid].slices_total = slices, total
    return unsized
