"""What readings say of a GPU besides time: flags, statuses, MIG, MPS, energy read without any time to divide it by.

Each counts in the window in which it was read. Tested in tests/unit/stream_jobs/test_core_flags.py.
"""

from typing import Any

import numpy as np

from schemas.samples import MPS_LIST
from schemas.units import NVML_SUCCESS

from .divide import Ints
from .reduce import Rows

Columns = dict[str, Any]
FACTS = ("message", "gpu", "window_start_us", "flags", "samples_status", "processes_status", "marks", "energy_mj")
OVER_REPORT, MIG, MPS = 1, 2, 4
"""Bits of `marks`: processes with more than 100 points together, a GPU in MIG mode, a process in the list of MPS."""


def read_facts(rows: Rows, order: Ints, window_us: Ints) -> Columns:
    """One row per run of readings of a GPU that say the same (FACTS); `order` sorts readings by (message, gpu).

    `window_us` is the start of the window in which each reading of that order was read.
    """
    device = rows.device
    empty = (device["energy_status"] == NVML_SUCCESS) & (device["span_end_us"] == device["span_start_us"])
    energy = np.where(empty, device["energy_end_mj"] - device["energy_start_mj"], 0)[order]
    found: Columns = {"message": rows.message[order], "gpu": rows.gpu[order], "window_start_us": window_us}
    found |= {name: device[name][order] for name in ("flags", "samples_status", "processes_status")}
    found["marks"] = _marks(rows)[order]
    new = np.ones(order.size, bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in found.values()])
    first = np.flatnonzero(new)
    said = {name: column[first].astype(np.int64) for name, column in found.items()}
    return said | {"energy_mj": np.add.reduceat(energy, first) if first.size else energy}


def _marks(rows: Rows) -> Ints:
    size, process = rows.message.size, rows.process
    reported = np.bincount(process["device_row"], np.maximum(process["sm_util_points"], 0), size)
    over = (reported > 100) & (rows.device["processes_status"] == NVML_SUCCESS)
    marks: Ints = over * OVER_REPORT + (rows.device["mig_mode"] == 1) * MIG
    mps = np.flatnonzero(process["lists"] & MPS_LIST)
    if mps.size:
        marks[np.unique(process["device_row"][mps])] |= MPS
    return marks
