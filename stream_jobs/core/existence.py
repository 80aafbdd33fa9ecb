"""How long each device of a window existed, and how much of a GPU in MIG mode was in no instance meanwhile.

Free slices are a device of their own, `<GPU>/free`, whose times are those of single slices added up. Law: over a
GPU's devices lifetime x slices adds up to the window x the GPU's slices, to the microsecond, however instances come
and go (tests/property/test_slices.py).
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from .divide import Ints
from .held import DeviceFacts
from .strips import Strips
from .window import NodeWindow


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
        for at, device in enumerate(window.devices):
            if device.is_free and window.stretches:
                pieces, _ = strips.pieces_of(np.flatnonzero(strips.strip["gpu"] == first + at))
                spans = list(zip(piece["start_us"][pieces].tolist(), piece["end_us"][pieces].tolist(), strict=True))
                found[first + at] = _observed(window, device.gpu_uuid, spans)
        first += len(window.devices)
    return found


def _observed(window: NodeWindow, uuid: str, spans: list[tuple[int, int]]) -> int:
    total = 0
    for start_us, end_us, free, _ in _times(window):
        slices = next((slices for device, slices in free if device.gpu_uuid == uuid), 0)
        if slices:
            total += slices * sum(max(0, min(b, end_us) - max(a, start_us)) for a, b in spans)
    return total
