"""Conservation, checked on every window that closes: a broken law is a row and a metric, never silence."""

from typing import Any

import numpy as np

from .attribute import Measures
from .batch import Batch
from .divide import sum_by


def violations(batch: Batch, m: Measures, gpu_of: Any) -> list[tuple[int, str, int]]:
    """Broken laws as (GPU number, law, by how many microseconds); empty unless there is a defect."""
    size = batch.gpus
    spent = sum_by(gpu_of, m.used_us + m.idle_us, size)
    lifetime = m.lifetime_us
    found: list[tuple[int, str, int]] = []
    for name, amount in (
        ("charged_is_not_observed", spent - m.observed_us),
        ("observed_above_lifetime", m.observed_us - lifetime),
    ):
        broken = amount != 0 if name == "charged_is_not_observed" else amount > 0
        found += [(g, name, int(amount[g])) for g in np.flatnonzero(broken).tolist()]
    for name in ("used_us", "idle_us", "energy_mj", "resident_us", "hot_idle_us"):
        values = getattr(m, name)
        found += [(int(gpu_of[n]), f"negative_{name}", int(values[n])) for n in np.flatnonzero(values < 0).tolist()]
    return found
