"""Rows of GPUs in MIG mode: metered by their instances, and what of them is in no instance as a device of its own.

A GPU in MIG mode has a row beside those of its instances, and counting both would count the hardware twice. Where the
driver told slices, the GPU's row becomes that of `<GPU>/free`; else it is left out. Pure (tests/unit/stream_jobs/
test_mig_rows.py).
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.ids import FREE_SLICES
from schemas.units import NVML_NOT_SUPPORTED, NVML_SUCCESS, STATUS_NOT_ASKED

if TYPE_CHECKING:
    from .decode import Block


def by_instances(block: "Block") -> "Block":
    """The block with the rows of its GPUs in MIG mode so changed, their processes left out: instances list them too."""
    device = block.device
    mig = device["mig_mode"] == 1
    if not mig.any():
        return block
    is_instance = _of_words(block, "gpu_uuid", lambda word: word.startswith("MIG-"))
    free = mig & ~is_instance & (device["slices_total"] > 1)
    keep = ~mig | is_instance | free | ~_has_instances(block, is_instance)
    if free.any():
        block = _renamed(block, free)
    return _without(block, keep, keep & ~free)


def _of_words(block: "Block", name: str, is_so: Any) -> Any:
    return np.array([is_so(word) for word in [*block.words[name], ""]], bool)[block.device[name]]


def _has_instances(block: "Block", is_instance: Any) -> Any:
    """Per row: whether its message has an instance of that GPU, or one that does not say of which it is."""
    device, size = block.device, len(block.numbers)
    message = np.repeat(np.arange(size), block.device_rows)
    places = {word: n for n, word in enumerate(block.words["gpu_uuid"])}
    parents = np.array([places.get(word, -1) for word in [*block.words["parent_uuid"], ""]], np.int64)
    parent = parents[device["parent_uuid"]]
    homeless = np.zeros(size, bool)
    homeless[message[is_instance & (parent < 0)]] = True
    wide = len(places) + 1
    told = np.unique((message * wide + parent)[is_instance & (parent >= 0)])
    return homeless[message] | np.isin(message * wide + device["gpu_uuid"], told)


def _renamed(block: "Block", free: Any) -> "Block":
    """The block in which some GPUs' rows are of their free slices, without energy: that is of the whole board."""
    device, words = dict(block.device), dict(block.words)
    code = device["gpu_uuid"]
    own = block.words["gpu_uuid"]
    uuids = [own[c] for c in np.unique(code[free]).tolist()]
    names = {uuid: uuid + FREE_SLICES for uuid in uuids}
    device["gpu_uuid"], words["gpu_uuid"] = _coded(own, code, [*own, *names.values()])
    device["parent_uuid"], words["parent_uuid"] = _coded(
        words["parent_uuid"], device["parent_uuid"], [*words["parent_uuid"], *uuids]
    )
    for name, of in (("gpu_uuid", names), ("parent_uuid", {uuid: uuid for uuid in uuids})):
        place = {word: n for n, word in enumerate(words[name])}
        told = np.array([place[of[uuid]] if uuid in of else -1 for uuid in own], np.int32)
        device[name] = np.where(free, told[code], device[name]).astype(np.int32)
    device["energy_status"] = np.where(free, STATUS_NOT_ASKED, device["energy_status"]).astype(np.int16)
    for name in ("samples_status", "processes_status"):
        # That some driver tells of the whole board is not of its free slices.
        answered = free & (device[name] == NVML_SUCCESS)
        device[name] = np.where(answered, NVML_NOT_SUPPORTED, device[name]).astype(np.int16)
    return replace(block, device=device, words=words)


def _coded(before: list[str], code: Any, words: list[str]) -> tuple[Any, list[str]]:
    """Codes of words as codes of more of them, and these sorted."""
    after = sorted(set(words))
    place = {word: n for n, word in enumerate(after)}
    return np.array([*(place[word] for word in before), 0], np.int32)[code], after


def _without(block: "Block", keep: Any, with_processes: Any) -> "Block":
    """The block with some device rows only, and with the processes of some of these."""
    size = len(block.numbers)
    message = np.repeat(np.arange(size), block.device_rows)
    of_process = np.repeat(np.arange(size), block.process_rows)
    before = np.cumsum(block.device_rows) - block.device_rows
    row = before[of_process] + block.process["device_row"]
    mine = with_processes[row]
    dropped = np.cumsum(~keep)
    kept = {name: column[mine] for name, column in block.process.items()}
    lost_before = np.append(0, dropped)[before[of_process[mine]]]
    kept["device_row"] = (kept["device_row"] - (dropped[row[mine]] - lost_before)).astype(np.int32)
    return replace(
        block,
        device={name: column[keep] for name, column in block.device.items()},
        process=kept,
        device_rows=np.bincount(message[keep], minlength=size),
        process_rows=np.bincount(of_process[mine], minlength=size),
    )
