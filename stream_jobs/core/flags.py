"""Flags of usage rows: what a GPU's readings say, what its grants and times show, what a holder's evidence lacks."""

from typing import Any

import numpy as np
import pyarrow as pa

from schemas.samples import READING_FLAGS

from .attribute import Measures
from .batch import Batch
from .divide import Ints
from .facts import MIG, MPS, OVER_REPORT

_REASONS = {3: "not_supported", 4: "no_permission", 15: "device_lost", 16: "reset_required", 18: "driver_mismatch"}
_MARKS = ((OVER_REPORT, "over_report"), (MIG, "mig"), (MPS, "mps"))
_NONE: frozenset[str] = frozenset()


def gpu_flags(batch: Batch, m: Measures) -> dict[int, set[str]]:
    """Flags of the GPUs that have some: what their readings of the window say, what their grants and times show."""
    found: dict[int, set[str]] = {}
    lost = m.observed_us < m.lifetime_us
    facts = batch.facts
    answered = [(facts[name] == 0) | (facts[name] == 6) for name in ("samples_status", "processes_status")]
    plain = (facts["flags"] == 0) & (facts["marks"] == 0) & answered[0] & answered[1]
    odd = np.flatnonzero(~plain)
    names = ("gpu", "flags", "marks", "samples_status", "processes_status")
    for g, bits, marks, *statuses in zip(*(facts[name][odd].tolist() for name in names), strict=True):
        flags = found.setdefault(g, set())
        flags |= {name for bit, name in READING_FLAGS.items() if bits & bit}
        flags |= {name for bit, name in _MARKS if marks & bit}
        if lost[g]:
            flags |= {_reason(status) for status in statuses if status not in (0, 6)}
    was_read = np.zeros(batch.gpus, bool)
    was_read[facts["gpu"]] = True
    gap = np.array([w.spool_gap for w in batch.windows], bool)[batch.window]
    known = np.array([x.grants_known for x in batch.laid], bool)[batch.window]
    shown = (
        ("silent", lost & ~was_read),
        ("spool_gap", gap),
        ("grant_unknown", ~known),
        ("overcommitted", batch.of_gpu["overcommitted"] > 0),
    )
    for name, where in shown:
        for g in np.flatnonzero(where).tolist():
            found.setdefault(g, set()).add(name)
    for g in batch.doubled:
        found.setdefault(g, set()).add("duplicate_collector")
    return found


def _reason(status: int) -> str:
    return _REASONS.get(status, f"nvml_{status}" if status >= 0 else "not_asked")


def row_flags(batch: Batch, of_gpu: dict[int, set[str]], marks: dict[str, Any], numbers: Ints) -> pa.Array:
    """Flags of holders: their GPU's, their own, and the names of the `marks` (masks per holder) that are set."""
    names = sorted(marks)
    bits = np.zeros(batch.holders, np.int64)
    for bit, name in enumerate(names):
        bits |= marks[name].astype(np.int64) << bit
    sets: dict[frozenset[str], int] = {_NONE: 0}
    gpu = np.zeros(batch.gpus, np.int64)
    for g, flags in of_gpu.items():
        gpu[g] = sets.setdefault(frozenset(flags), len(sets))
    counts = np.array([len(x.flags) for x in batch.laid], np.int64)
    first = np.repeat(np.cumsum(counts) - counts, [x.holders.shape[1] for x in batch.laid])
    numbered = [sets.setdefault(flags, len(sets)) for x in batch.laid for flags in x.flags]
    own = np.array(numbered, np.int64)[first + batch.of_holder["flag"]]
    of_sets = list(sets)
    key = ((gpu[batch.gpu] * len(sets) + own) * (1 << len(names)) + bits)[numbers]
    distinct, inverse = np.unique(key, return_inverse=True)
    lists = []
    for code in distinct.tolist():
        both, set_bits = divmod(code, 1 << len(names))
        marked = {name for bit, name in enumerate(names) if set_bits >> bit & 1}
        lists.append(sorted(of_sets[both // len(sets)] | of_sets[both % len(sets)] | marked))
    return pa.array(lists, pa.list_(pa.string())).take(pa.array(inverse))
