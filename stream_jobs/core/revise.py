"""From the rows of a window as of two minutes to the rows of a revision: absolute values, and signed differences.

Pure. Laws: the differences of all revisions of a row add up to its newest value; a revision without a difference does
not exist (tests/property/test_revisions.py).
"""

from collections import defaultdict
from typing import Any

import pyarrow as pa

from schemas.ids import VIOLATION
from schemas.usage import INGEST_COLUMNS

from .rows import USAGE_SCHEMA

_DIFFERENCES = ("held_us", "used_us", "charged_us", "memory_byte_ms", "energy_mj")
_MEASURES = (
    "requested_us", "held_us", "used_us", "used_variance_us2", "resident_us", "hot_idle_us", "memory_byte_ms",
    "energy_mj",
)  # fmt: skip
_OF_GPU = ("observed_us", "memory_observed_us", "energy_observed_us", "lifetime_us")
_PASSING = {c.name for c in INGEST_COLUMNS} | {"revision"} | {f"d_{name}" for name in _DIFFERENCES}

Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]
"""Rows of a node's window by (GPU, holder)."""
WindowKey = tuple[str, int]
"""(node, window start)."""


def rows_by_window(table: pa.Table) -> dict[WindowKey, dict[int, Rows]]:
    """Rows of windows by (node, window start) and minute."""
    found: dict[WindowKey, dict[int, Rows]] = defaultdict(lambda: defaultdict(dict))
    for row in table.to_pylist():
        key = (row["node"], row["window_start_us"])
        found[key][row["revision"]][row["gpu_uuid"], row["holder"]] = row
    return found


def revision(before: Rows, after: Rows, minute_us: int, reasons: list[str]) -> list[Row]:
    """Rows of the GPUs that look different after; a holder that vanishes has a row with nothing left."""
    gpus = {gpu for gpu, _ in before.keys() | after.keys()}
    changed = {gpu for gpu in gpus if _of(before, gpu) != _of(after, gpu)}
    found = []
    for key in sorted(before.keys() | after.keys()):
        if key[0] in changed:
            old, new = before.get(key), after.get(key)
            row = new if new is not None else _emptied(before[key], after)
            found.append(_revised(row, old, minute_us, reasons))
    return found


def revision_table(rows: list[Row]) -> pa.Table:
    """The rows as a table of gpu-usage."""
    return pa.Table.from_pylist(rows, schema=USAGE_SCHEMA)


def _of(rows: Rows, gpu: str) -> dict[str, Row]:
    content = {holder: row for (g, holder), row in rows.items() if g == gpu}
    return {h: {k: v for k, v in row.items() if k not in _PASSING} for h, row in content.items()}


def _emptied(row: Row, after: Rows) -> Row:
    """A row of a holder that is no longer there: nothing is left of it, in a GPU that looks as it does now."""
    of_gpu = next((r for (gpu, _), r in after.items() if gpu == row["gpu_uuid"]), dict.fromkeys(_OF_GPU, 0))
    nothing = {name: None if row[name] is None else 0 for name in _MEASURES}
    return row | nothing | {"charged_us": 0, "flags": []} | {name: of_gpu[name] for name in _OF_GPU}


def _revised(row: Row, old: Row | None, minute_us: int, reasons: list[str]) -> Row:
    differences = {f"d_{name}": (row[name] or 0) - ((old or {}).get(name) or 0) for name in _DIFFERENCES}
    if row["holder_kind"] == VIOLATION:
        differences = {f"d_{name}": 0 for name in _DIFFERENCES} | {"d_charged_us": differences["d_charged_us"]}
    return row | differences | {"revision": minute_us, "flags": sorted({*row["flags"], *reasons})}
