"""How long each device of a window existed, and how much of a GPU in MIG mode was in no instance meanwhile.

Free slices are a device of their own, `<GPU>/free`, whose times are those of single slices added up. Law: over a
GPU's devices lifetime x slices adds up to the window x the GPU's slices, to the microsecond, however instances come
and go (tests/property/test_slices.py).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from .divide import Ints
from .held import DeviceFacts
from .strips import Strips
from .window import NodeWindow, Stretch


def alike(lists: list[list[DeviceFacts]], ends_us: list[int]) -> list[Stretch]:
    """Stretches of a window's device lists, in which what some of the lists leave open is as the others tell.

    The size of an instance never changes, so one that is told counts where it is not; a GPU of which a list has
    nothing, neither itself nor a part, is as before, e.g. lost while its collector began anew.
    """
    sized = {d.gpu_uuid: d for devices in lists for d in devices if d.slices_total > 1}
    free = {d.parent_uuid: d for d in sized.values() if d.is_free}
    known: dict[str, list[DeviceFacts]] = {}
    found = []
    for devices, end_us in zip(lists, ends_us, strict=True):
        told: dict[str, list[DeviceFacts]] = defaultdict(list)
        for device in (sized.get(d.gpu_uuid, d) for d in devices):
            told[device.parent_uuid if device.slices_total > 1 else device.gpu_uuid].append(device)
        for gpu, mine in told.items():
            if gpu in free and any(d.slices_total > 1 for d in mine) and free[gpu] not in mine:
                mine.append(free[gpu])
        known |= told
        found.append(Stretch(end_us, sorted(d for mine in known.values() for d in mine)))
    return found


def lifetimes_us(windows: list[NodeWindow], length_us: Ints) -> Ints:
    """Per device of the windows, one behind the other; `length_us` are those of their windows."""
    if not any(window.stretches for window in windows):
        return length_us
    lifetime, first = length_us.copy(), 0
    for window in windows:
        size = len(window.devices)
        if window.stretches:
            lifetime[first : first + size] = _of_window(window)
        first += size
    return lifetime


def _of_window(window: NodeWindow) -> list[int]:
    whole = window.end_us - window.start_us
    lived: dict[str, int] = defaultdict(int)
    for start_us, end_us, free, instances in _times(window):
        for uuid in instances:
            lived[uuid] += end_us - start_us
        for device, slices in free:
            lived[device.gpu_uuid] += (end_us - start_us) * slices
            lived[device.parent_uuid] += end_us - start_us
    # A whole GPU is there but while it is in MIG mode.
    return [lived[d.gpu_uuid] if d.slices_total > 1 else whole - lived[d.gpu_uuid] for d in window.devices]


def _times(window: NodeWindow) -> Iterator[tuple[int, int, list[tuple[DeviceFacts, int]], list[str]]]:
    """Start and end of each stretch, GPUs in MIG mode with their free slices, and the instances."""
    start_us = window.start_us
    for number, (end_us, devices) in enumerate(window.stretches):
        is_last = number == len(window.stretches) - 1
        end_us = window.end_us if is_last else min(end_us, window.end_us)
        taken: dict[str, int] = defaultdict(int)
        instances = [d for d in devices if d.slices_total > 1 and not d.is_free]
        for device in instances:
            taken[device.parent_uuid] += device.slices
        free = [(d, max(0, d.slices_total - taken[d.parent_uuid])) for d in devices if d.is_free]
        yield start_us, end_us, free, [d.gpu_uuid for d in instances]
        start_us = end_us


def free_us(windows: list[NodeWindow], strips: Strips) -> dict[int, int]:
    """Of each GPU number that stands for free slices, how long these were observed, slice by slice added up."""
    found: dict[int, int] = {}
    if not any(window.stretches for window in windows):
        return found
    first, piece = 0, strips.piece
    for window in windows:
        free = [at for at, device in enumerate(window.devices) if device.is_free and window.stretches]
        times = list(_times(window)) if free else []
        for at in free:
            uuid = window.devices[at].gpu_uuid
            slices = [next((n for device, n in there if device.gpu_uuid == uuid), 0) for _, _, there, _ in times]
            pieces, _ = strips.pieces_of(np.flatnonzero(strips.strip["gpu"] == first + at))
            edges = np.array([start_us for start_us, *_ in times], np.int64)
            upto = _slice_time(edges, np.array(slices, np.int64))
            found[first + at] = int((upto(piece["end_us"][pieces]) - upto(piece["start_us"][pieces])).sum())
        first += len(window.devices)
    return found


def _slice_time(edges_us: Ints, slices: Ints) -> Callable[[Ints], Ints]:
    """Time x slices from the first edge up to some times; from each edge on there are so many slices."""
    before = np.concatenate([[0], np.cumsum(np.diff(edges_us) * slices[:-1])])

    def upto(times_us: Ints) -> Ints:
        at = np.maximum(np.searchsorted(edges_us, times_us, side="right") - 1, 0)
        total: Ints = before[at] + (times_us - edges_us[at]) * slices[at]
        return total

    return upto
