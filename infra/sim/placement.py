"""Which device slots are free when: the device plugin's book of grants. Pure; asked in the order of time.

Law: a slot is granted to one container at a time (tests/unit/infra/sim/test_scenario.py).
"""

from collections.abc import Sequence

FOREVER_US = 1 << 62


class SlotBook:
    """Grants of slots; `take` must be called in ascending order of start."""

    def __init__(self) -> None:
        self._free_from_us: dict[str, list[int]] = {}

    def take(self, gpu_uuid: str, slots: int, start_us: int, end_us: int | None) -> str | None:
        """The lowest free slot's device id, granted in [start, end); None: all are taken."""
        free_from = self._free_from_us.setdefault(gpu_uuid, [-FOREVER_US] * slots)
        for slot, free_us in enumerate(free_from):
            if free_us <= start_us:
                free_from[slot] = FOREVER_US if end_us is None else end_us
                return gpu_uuid if slots == 1 else f"{gpu_uuid}::{slot}"
        return None

    def taken(self, gpu_uuid: str, at_us: int) -> int:
        """Slots of a GPU that are granted at a time."""
        return sum(free_us > at_us for free_us in self._free_from_us.get(gpu_uuid, ()))

    def least_taken(self, gpu_uuids: Sequence[str], slots: int, need: int, at_us: int) -> str | None:
        """The GPU with the fewest granted slots that still has `need` free; the first of equals."""
        open_gpus = [uuid for uuid in gpu_uuids if slots - self.taken(uuid, at_us) >= need]
        return min(open_gpus, key=lambda uuid: self.taken(uuid, at_us), default=None)
