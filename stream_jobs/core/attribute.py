"""From the strips of closed windows to the measures of every holder.

Laws: charged adds up to the lifetime and charged but unobserved to the observed time, to the microsecond; nobody has
a share without evidence; a null is not a zero (tests/property/test_meter.py against the row-by-row oracle).
"""

from dataclasses import dataclass

import numpy as np

from schemas.ids import UNALLOCATED, UNATTRIBUTED, UNOBSERVED

from .batch import Batch
from .divide import Ints, sum_by
from .existence import free_us
from .idle import divide_idle
from .residents import resident_us, residents


@dataclass(slots=True)
class Measures:
    """Integer measures per holder number (`used_us` .. `energy_mj`) and per GPU number (`*_observed_us`)."""

    used_us: Ints
    variance_us2: Ints
    resident_us: Ints
    idle_us: Ints
    hot_idle_us: Ints
    memory_byte_ms: Ints
    memory_partial: Ints
    energy_mj: Ints
    observed_us: Ints
    memory_observed_us: Ints
    energy_observed_us: Ints
    allocated_us: Ints
    """Of the observed time, what no basis says the use of."""
    lifetime_us: Ints
    """Time of the window in which it was there."""


_PER_ROW = ("used_us", "variance_us2", "energy_mj", "memory_byte_ms", "memory_partial")
_PER_GPU = ("observed_us", "memory_observed_us", "energy_observed_us", "allocated_us")


def measure(batch: Batch) -> Measures:
    """All measures of a batch."""
    strip, row, gpu = batch.strips.strip, batch.strips.row, batch.strips.strip["gpu"]
    size = batch.holders
    at, _ = batch.strips.rows_of()
    # Rows of strips that do not count lie among the others.
    mine = slice(None) if at.size == batch.row_holder.size else at
    sums = {name: sum_by(batch.row_holder[mine], row[name][mine], size) for name in _PER_ROW}
    unattributed, unobserved = batch.of_gpu[UNATTRIBUTED], batch.of_gpu[UNOBSERVED]
    np.add.at(sums["used_us"], unattributed[gpu], strip["unattributed_us"])
    np.add.at(sums["energy_mj"], unattributed[gpu], strip["unattributed_mj"])
    np.add.at(sums["energy_mj"], unobserved[gpu], strip["lost_mj"])
    # Energy read without any time to divide it by is unobserved, in the window of the reading.
    np.add.at(sums["energy_mj"], unobserved[batch.facts["gpu"]], batch.facts["energy_mj"])
    there = residents(batch)
    idle = divide_idle(batch, there)
    sums["energy_mj"] += idle.energy_mj
    of_gpu = {name: sum_by(gpu, strip[name], batch.gpus) for name in _PER_GPU}
    _count_free_slices(batch, of_gpu, idle.us)
    return Measures(
        **sums,
        **of_gpu,
        resident_us=resident_us(batch, there),
        idle_us=idle.us,
        hot_idle_us=idle.hot_us,
        lifetime_us=np.where(batch.sliced, np.maximum(batch.exists_us, of_gpu["observed_us"]), batch.exists_us),
    )


def _count_free_slices(batch: Batch, of_gpu: dict[str, Ints], idle_us: Ints) -> None:
    """Of free slices the time of each slice counts, and all of it is unallocated."""
    for number, us in free_us(batch.windows, batch.strips).items():
        of_gpu["observed_us"][number] = of_gpu["allocated_us"][number] = us
        idle_us[batch.gpu == number] = 0
        idle_us[batch.of_gpu[UNALLOCATED][number]] = us
