"""Many node windows as one set of columns: GPUs, strips of readings, holders, segments of constant grants.

Here identities become numbers, once per distinct process and not once per row; everything after is arithmetic on
columns. A GPU number `g` is a GPU of one node's window; a holder number `h` is a holder on one such GPU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.ids import PSEUDO_HOLDERS

from .divide import Ints, sum_by
from .existence import lifetimes_us
from .gather import gather
from .identity import Directory
from .layout import GPU_COLUMNS, HELD_COLUMNS, HOLDER_COLUMNS, SEGMENT_COLUMNS, TO_THE_END, Laid
from .layouts import lay_out
from .strips import Columns, Strips
from .window import NodeWindow


@dataclass(slots=True)
class Batch:
    """Columns of many node windows; strips and facts name GPUs, `row_holder` the holder of each strip row."""

    windows: list[NodeWindow]
    laid: list[Laid]
    window: Ints
    """Per GPU: its window."""
    start_us: Ints
    """Per GPU, as `length_us`: of its window."""
    length_us: Ints
    exists_us: Ints
    """Per GPU: how much of that it was there."""
    sliced: Any
    """Per GPU: whether some device of its window is a MIG instance or free slices of known size."""
    of_gpu: Columns
    """GPU_COLUMNS."""
    segment: Columns
    """SEGMENT_COLUMNS; times are relative to the window's start."""
    held: Columns
    """HELD_COLUMNS."""
    of_holder: Columns
    """HOLDER_COLUMNS and `held_us`: slots x time / slots of the device."""
    strips: Strips
    facts: Columns
    doubled: frozenset[int]
    row_holder: Ints

    @property
    def gpu(self) -> Ints:
        """Per holder: its GPU."""
        gpu: Ints = self.of_holder["gpu"]
        return gpu

    @property
    def holders(self) -> int:
        """How many holders."""
        return int(self.gpu.size)

    @property
    def gpus(self) -> int:
        """How many GPUs."""
        return int(self.window.size)


def make_batch(windows: list[NodeWindow], directory_of: Callable[[NodeWindow], Directory]) -> Batch:
    """The columns of windows; strip rows are joined to holders under the snapshot that their reading names."""
    gpus = np.array([len(window.devices) for window in windows], np.int64)
    first_gpu = np.cumsum(gpus) - gpus
    gathered = gather(windows, first_gpu)
    laid, row_holder = lay_out(windows, gathered, first_gpu, directory_of)
    holders = np.array([x.holders.shape[1] for x in laid], np.int64)
    first_holder = np.cumsum(holders) - holders
    at, item = gathered.strips.rows_of()
    row_holder[at] += first_holder[gathered.window[gathered.strips.strip["message"]]][item]
    window = np.repeat(np.arange(len(windows)), gpus)
    start = np.array([w.start_us for w in windows], np.int64)
    end = np.array([w.end_us for w in windows], np.int64)
    return Batch(
        windows=windows,
        laid=laid,
        window=window,
        start_us=start[window],
        length_us=(end - start)[window],
        exists_us=lifetimes_us(windows, (end - start)[window]),
        sliced=np.array([bool(w.stretches) for w in windows], bool)[window],
        strips=gathered.strips,
        facts=gathered.facts,
        doubled=gathered.doubled,
        row_holder=row_holder,
        **_tables(laid, (end - start)[window], gpus, first_gpu, first_holder),
    )


def _tables(laid: list[Laid], length_us: Ints, gpus: Ints, first_gpu: Ints, first_holder: Ints) -> dict[str, Columns]:
    """The layouts' matrices one behind the other, their GPUs and holders numbered through."""
    of_gpu = _joined(GPU_COLUMNS, [x.gpus for x in laid])
    for kind in PSEUDO_HOLDERS:
        of_gpu[kind] += np.repeat(first_holder, gpus)
    parts = [x.segments for x in laid]
    segments = np.array([part.shape[1] for part in parts], np.int64)
    segment = _joined(SEGMENT_COLUMNS, parts)
    segment["gpu"] += np.repeat(first_gpu, segments)
    held_counts = np.array([x.held.shape[1] for x in laid], np.int64)
    segment["held_first"] += np.repeat(np.cumsum(held_counts) - held_counts, segments)
    held = _joined(HELD_COLUMNS, [x.held for x in laid])
    held["holder"] += np.repeat(first_holder, held_counts)
    of_holder = _joined(HOLDER_COLUMNS, [x.holders for x in laid])
    holders = np.array([x.holders.shape[1] for x in laid], np.int64)
    of_holder["gpu"] += np.repeat(first_gpu, holders)
    segment["end_us"] = np.where(segment["end_us"] == TO_THE_END, length_us[segment["gpu"]], segment["end_us"])
    length = np.repeat(segment["end_us"] - segment["start_us"], segment["held_count"])
    held_us = sum_by(held["holder"], held["slots"] * length, of_holder["gpu"].size)
    of_holder["held_us"] = held_us // of_gpu["slots"][of_holder["gpu"]]
    of_holder["order"] += np.repeat(first_holder, holders)
    return {"of_gpu": of_gpu, "segment": segment, "held": held, "of_holder": of_holder}


def _joined(names: tuple[str, ...], matrices: list[Ints]) -> Columns:
    whole = np.concatenate(matrices, axis=1) if matrices else np.zeros((len(names), 0), np.int64)
    return dict(zip(names, whole, strict=True))
