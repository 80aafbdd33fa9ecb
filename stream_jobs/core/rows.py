"""Usage rows of closed windows: measures, flags and nulls of every holder, column by column.

Null is "the basis cannot say" and never a zero. Tested in tests/property/test_meter.py and
tests/unit/stream_jobs/test_core_flags.py.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from schemas.ids import HOST, POD, UNATTRIBUTED, UNOBSERVED, VIOLATION
from schemas.usage import ALL_COLUMNS, METER_VERSION
from stream_jobs.decode import arrow_schema

from .attribute import Measures
from .batch import Batch
from .checks import violations
from .divide import Ints
from .flags import gpu_flags, row_flags
from .identity import Holder

USAGE_SCHEMA = arrow_schema(ALL_COLUMNS)
_MEASURES = (
    "requested_us", "held_us", "used_us", "used_variance_us2", "resident_us", "hot_idle_us", "memory_byte_ms",
    "energy_mj",
)  # fmt: skip
_EVIDENCE = ("held_us", "used_us", "resident_us", "memory_byte_ms", "energy_mj")
_DIFFERENCES = ("held_us", "used_us", "memory_byte_ms", "energy_mj")

Nullable = tuple[Ints, Any]
"""Values and a mask of those that are known."""


def usage_table(batch: Batch, m: Measures, topic_id: str, partition: int) -> pa.Table:
    """The rows of a batch, by window, GPU and holder; a holder without any evidence in the window has no row."""
    gpu = np.array([g for g, _ in batch.holders], np.int64)
    holders = [holder for _, holder in batch.holders]
    kind = np.array([holder.kind for holder in holders], object)
    lifetime = _lifetimes(batch)
    charged = np.where(kind == UNOBSERVED, (lifetime - m.observed_us)[gpu], m.used_us + m.idle_us)
    cells, marks = _cells(batch, m, gpu, kind)
    shown = [known & (values != 0) for values, known in (cells[name] for name in _EVIDENCE)]
    evidence = np.logical_or.reduce([charged != 0, *shown])
    order = np.lexsort((np.array([holder.id for holder in holders]), gpu))
    order = order[evidence[order]]
    flags = gpu_flags(batch, m)
    columns: dict[str, Any] = _common(batch, m, gpu[order], topic_id, partition)
    columns |= _identities([holders[number] for number in order.tolist()])
    columns |= {name: _nullable(values[order], known[order]) for name, (values, known) in cells.items()}
    columns |= {"charged_us": charged[order], "d_charged_us": charged[order]}
    for name in _DIFFERENCES:
        values, known = cells[name]
        columns[f"d_{name}"] = np.where(known, values, 0)[order]
    columns["flags"] = row_flags(batch, flags, marks, order.tolist())
    broken = violations(batch, m, gpu)
    table = _table(columns)
    return pa.concat_tables([table, _violation_rows(batch, m, broken, topic_id, partition)]) if broken else table


def _lifetimes(batch: Batch) -> Ints:
    return np.array([g.window.end_us - g.window.start_us for g in batch.gpus], np.int64)


def _cells(batch: Batch, m: Measures, gpu: Ints, kind: Any) -> tuple[dict[str, Nullable], dict[str, Any]]:
    """The measures that may be null, per holder, and the marks that become flags."""
    pod = kind == POD
    observed, listed = (m.observed_us > 0)[gpu], (m.memory_observed_us > 0)[gpu]
    with_memory = (pod | (kind == HOST) | (kind == UNATTRIBUTED)) & listed
    powered = (m.energy_observed_us > 0)[gpu]
    grants = np.array([g.grants_known for g in batch.gpus], bool)[gpu] & pod
    held, granted = _held(batch, gpu)
    units, units_known = _units(batch)
    requested = np.where((units > 0) & (granted > 0), held * units // np.maximum(granted, 1), 0)
    used_known = np.where(pod, observed, kind != UNOBSERVED)
    cells = {
        "requested_us": (requested, grants & units_known),
        "held_us": (held, grants),
        "used_us": (m.used_us, used_known),
        "used_variance_us2": (m.variance_us2, np.where(pod, observed, (kind == HOST) | (kind == UNATTRIBUTED))),
        "resident_us": (m.resident_us, with_memory),
        "hot_idle_us": (m.hot_idle_us, with_memory),
        "memory_byte_ms": (m.memory_byte_ms, with_memory & ((m.memory_partial == 0) | (m.memory_byte_ms != 0))),
        "energy_mj": (m.energy_mj, np.where(pod, powered, powered | (m.energy_mj != 0))),
    }
    busy = (observed & (m.used_us != 0)) | (listed & (m.resident_us != 0))
    missing = grants & units_known & (units > 0) & (held == 0)
    marks = {
        "unrequested": pod & units_known & (units == 0) & busy,
        "granted_elsewhere": missing & (granted > 0),
        "grant_missing": missing & ~_ever_granted(batch),
        "memory_partial": pod & (m.memory_partial > 0),
    }
    return cells, marks


def _held(batch: Batch, gpu: Ints) -> tuple[Ints, Ints]:
    """Per holder: held microseconds (slots x time / slots of the device), and slots granted on the whole node."""
    held, granted = np.zeros(gpu.size, np.int64), np.zeros(gpu.size, np.int64)
    for g, facts in enumerate(batch.gpus):
        for segment in facts.segments:
            for holder, count in segment.held:
                held[batch.holder_numbers[g, holder.id]] += count * (segment.end_us - segment.start_us)
    slots = np.array([g.segments[0].slots for g in batch.gpus], np.int64)
    for number, (g, holder) in enumerate(batch.holders):
        granted[number] = batch.gpus[g].granted_units.get(holder.id, 0)
    return held // slots[gpu], granted


def _ever_granted(batch: Batch) -> Any:
    return np.array([holder.id in batch.gpus[g].granted_ever for g, holder in batch.holders], bool)


def _units(batch: Batch) -> Nullable:
    units = [holder.requested_units for _, holder in batch.holders]
    known = np.array([u is not None for u in units], bool)
    return np.array([u or 0 for u in units], np.int64), known


def _nullable(values: Any, known: Any) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~known)


def _common(batch: Batch, m: Measures, gpu: Ints, topic_id: str, partition: int) -> dict[str, Any]:
    """Columns that all rows of a GPU share, for the GPU numbers of the rows."""
    windows = [g.window for g in batch.gpus]
    lifetime = _lifetimes(batch)
    numbers = {
        "window_start_us": [w.start_us for w in windows],
        "window_end_us": [w.end_us for w in windows],
        "revision": [w.revision for w in windows],
        "cut_samples_offset": [w.cuts[0] for w in windows],
        "cut_mappings_offset": [w.cuts[1] for w in windows],
        "cut_events_offset": [w.cuts[2] for w in windows],
        "observed_us": m.observed_us,
        "memory_observed_us": m.memory_observed_us,
        "energy_observed_us": m.energy_observed_us,
        "lifetime_us": lifetime,
        "weight_slices": [1] * len(windows),
        "weight_total": [1] * len(windows),
        "meter_version": [METER_VERSION] * len(windows),
        "src_partition": [partition] * len(windows),
    }
    words = {
        "cluster": [w.cluster for w in windows],
        "node": [w.node for w in windows],
        "gpu_uuid": [g.gpu_uuid for g in batch.gpus],
        "gpu_model": [g.gpu_model for g in batch.gpus],
        "basis": ["sampled" if us else "allocation" for us in m.observed_us.tolist()],
        "src_topic_id": [topic_id] * len(windows),
    }
    columns: dict[str, Any] = {name: np.asarray(values, np.int64)[gpu] for name, values in numbers.items()}
    return columns | {name: pa.array(values, pa.string()).take(pa.array(gpu)) for name, values in words.items()}


def _identities(holders: list[Holder]) -> dict[str, list[str]]:
    return {
        "holder": [h.id for h in holders],
        "holder_kind": [h.kind for h in holders],
        "namespace": [h.namespace for h in holders],
        "pod_name": [h.pod_name for h in holders],
        "pod_uid": [h.pod_uid for h in holders],
        "container_name": [h.container_name for h in holders],
        "owner_kind": [h.owner_kind for h in holders],
        "owner_name": [h.owner_name for h in holders],
    }


def _violation_rows(
    batch: Batch, m: Measures, broken: list[tuple[int, str, int]], topic_id: str, partition: int
) -> pa.Table:
    """One row per broken law: what is broken, and by how many microseconds."""
    gpu = np.array([g for g, _, _ in broken], np.int64)
    amount = np.array([by for _, _, by in broken], np.int64)
    columns: dict[str, Any] = _common(batch, m, gpu, topic_id, partition)
    columns |= _identities([Holder(f"violation:{what}", VIOLATION) for _, what, _ in broken])
    columns |= {name: pa.nulls(len(broken), pa.int64()) for name in _MEASURES}
    columns |= {f"d_{name}": np.zeros(len(broken), np.int64) for name in _DIFFERENCES}
    columns |= {"charged_us": amount, "d_charged_us": amount, "flags": [[what] for _, what, _ in broken]}
    return _table(columns)


def _table(columns: dict[str, Any]) -> pa.Table:
    arrays = []
    for field in USAGE_SCHEMA:
        column = columns[field.name]
        if isinstance(column, np.ndarray):
            column = column.astype(field.type.to_pandas_dtype())
        arrays.append(column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column, field.type))
    return pa.Table.from_arrays(arrays, schema=USAGE_SCHEMA)
