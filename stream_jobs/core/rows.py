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
from .layout import IDENTITY, KINDS, identities

USAGE_SCHEMA = arrow_schema(ALL_COLUMNS)
_MEASURES = (
    "requested_us", "held_us", "used_us", "used_variance_us2", "resident_us", "hot_idle_us", "memory_byte_ms",
    "energy_mj",
)  # fmt: skip
_EVIDENCE = ("held_us", "used_us", "resident_us", "memory_byte_ms", "energy_mj")
_DIFFERENCES = ("held_us", "used_us", "memory_byte_ms", "energy_mj")

_POD, _HOST, _UNATTRIBUTED, _UNOBSERVED = (KINDS.index(kind) for kind in (POD, HOST, UNATTRIBUTED, UNOBSERVED))

_OF_GPU = ("observed_us", "memory_observed_us", "energy_observed_us", "lifetime_us")

_PARTIAL = 100
"""From a hundredth of what was observed on, use that is unattributed is told: the driver's floor leaves less."""

Nullable = tuple[Ints, Any]
"""Values and a mask of those that are known."""


def usage_table(batch: Batch, m: Measures, topic_id: str, partition: int) -> pa.Table:
    """The rows of a batch, by window, GPU and holder; a holder without any evidence in the window has no row."""
    gpu, kind = batch.gpu, batch.of_holder["kind"]
    charged = np.where(kind == _UNOBSERVED, (m.lifetime_us - m.observed_us)[gpu], m.used_us + m.idle_us)
    cells, marks = _cells(batch, m, gpu, kind)
    shown = [known & (values != 0) for values, known in (cells[name] for name in _EVIDENCE)]
    evidence = np.logical_or.reduce([charged != 0, *shown])
    order = batch.of_holder["order"]
    has_row = evidence[order]
    order = order[has_row]
    names = pa.Table.from_batches([laid.names for laid in batch.laid]).combine_chunks().filter(pa.array(has_row))
    columns: dict[str, Any] = _common(batch, m, gpu[order], topic_id, partition)
    columns |= {name: names.column(name).combine_chunks() for name in IDENTITY}
    columns |= {name: _nullable(values[order], known[order]) for name, (values, known) in cells.items()}
    columns |= {"charged_us": charged[order], "d_charged_us": charged[order]}
    for name in _DIFFERENCES:
        values, known = cells[name]
        columns[f"d_{name}"] = np.where(known, values, 0)[order]
    columns["flags"] = row_flags(batch, gpu_flags(batch, m), marks, order)
    broken = violations(batch, m, gpu)
    table = _table(columns)
    return pa.concat_tables([table, _violation_rows(batch, m, broken, topic_id, partition)]) if broken else table


def _cells(batch: Batch, m: Measures, gpu: Ints, kind: Any) -> tuple[dict[str, Nullable], dict[str, Any]]:
    """The measures that may be null, per holder, and the marks that become flags."""
    pod, engine = kind == _POD, (kind == _HOST) | (kind == _UNATTRIBUTED)
    observed, listed = _is_sampled(m)[gpu], (m.memory_observed_us > 0)[gpu]
    with_memory = (pod | engine) & listed
    powered = (m.energy_observed_us > 0)[gpu]
    grants = np.array([x.grants_known for x in batch.laid], bool)[batch.window][gpu] & pod
    held, granted, units = (batch.of_holder[name] for name in ("held_us", "granted", "units"))
    units_known, ever = (batch.of_holder[name] > 0 for name in ("units_known", "ever_granted"))
    requested = np.where((units > 0) & (granted > 0), held * units // np.maximum(granted, 1), 0)
    allocated = (m.allocated_us > 0)[gpu]
    used_known = np.where(pod | (engine & allocated), observed, kind != _UNOBSERVED)
    cells = {
        "requested_us": (requested, grants & units_known),
        "held_us": (held, grants),
        "used_us": (m.used_us, used_known),
        "used_variance_us2": (m.variance_us2, np.where(pod | allocated, observed, engine)),
        "resident_us": (m.resident_us, with_memory),
        "hot_idle_us": (m.hot_idle_us, with_memory & ~allocated),
        "memory_byte_ms": (m.memory_byte_ms, with_memory & ((m.memory_partial == 0) | (m.memory_byte_ms != 0))),
        "energy_mj": (m.energy_mj, np.where(pod, powered, powered | (m.energy_mj != 0))),
    }
    busy = (observed & (m.used_us != 0)) | (listed & (m.resident_us != 0))
    missing = grants & units_known & (units > 0) & (held == 0)
    marks = {
        "unrequested": pod & units_known & (units == 0) & busy,
        "granted_elsewhere": missing & (granted > 0),
        "grant_missing": missing & ~ever,
        "memory_partial": pod & (m.memory_partial > 0),
        "used_partial": pod & observed & _is_partial(batch, m)[gpu],
    }
    return cells, marks


def _is_partial(batch: Batch, m: Measures) -> Any:
    """Per GPU: whether so much of its use is nobody's that what its pods used may well be more than is known."""
    return m.used_us[batch.of_gpu[UNATTRIBUTED]] * _PARTIAL > m.observed_us


def _is_sampled(m: Measures) -> Any:
    """Per GPU: whether use is known in all that was observed of its window; the weakest basis counts."""
    return (m.observed_us > 0) & (m.allocated_us == 0)


def _nullable(values: Any, known: Any) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~known)


def _common(batch: Batch, m: Measures, gpu: Ints, topic_id: str, partition: int) -> dict[str, Any]:
    """Columns that all rows of a GPU share, for the GPU numbers of the rows."""
    windows, size = batch.windows, gpu.size
    window = batch.window[gpu]
    of_window = {
        "window_start_us": [w.start_us for w in windows],
        "window_end_us": [w.end_us for w in windows],
        "revision": [w.revision for w in windows],
        "cut_samples_offset": [w.cuts[0] for w in windows],
        "cut_mappings_offset": [w.cuts[1] for w in windows],
        "cut_events_offset": [w.cuts[2] for w in windows],
    }
    of_gpu = {name: getattr(m, name) for name in _OF_GPU}
    devices = [device for w in windows for device in w.devices]
    of_gpu["weight_slices"] = np.array([1 if device.is_free else device.slices for device in devices], np.int64)
    of_gpu["weight_total"] = np.array([device.slices_total for device in devices], np.int64)
    always = {"meter_version": METER_VERSION, "src_partition": partition}
    columns: dict[str, Any] = {name: np.array(values, np.int64)[window] for name, values in of_window.items()}
    columns |= {name: values[gpu] for name, values in of_gpu.items()}
    columns |= {name: np.full(size, value, np.int64) for name, value in always.items()}
    columns |= {
        "cluster": _taken([w.cluster for w in windows], window),
        "node": _taken([w.node for w in windows], window),
        "gpu_uuid": _taken([device.gpu_uuid for device in devices], gpu),
        "gpu_model": _taken([device.gpu_model for device in devices], gpu),
        "parent_uuid": _taken([d.parent_uuid if d.slices_total > 1 else d.gpu_uuid for d in devices], gpu),
        "basis": _taken(["allocation", "sampled"], _is_sampled(m)[gpu].astype(np.int64)),
        "src_topic_id": _taken([topic_id], np.zeros(size, np.int64)),
    }
    return columns


def _taken(words: list[str], at: Ints) -> pa.Array:
    return pa.array(words, pa.string()).take(pa.array(at))


def _violation_rows(
    batch: Batch, m: Measures, broken: list[tuple[int, str, int]], topic_id: str, partition: int
) -> pa.Table:
    """One row per broken law: what is broken, and by how many microseconds."""
    gpu = np.array([g for g, _, _ in broken], np.int64)
    amount = np.array([by for _, _, by in broken], np.int64)
    columns: dict[str, Any] = _common(batch, m, gpu, topic_id, partition)
    names = identities([Holder(f"violation:{what}", VIOLATION) for _, what, _ in broken])
    columns |= {name: names.column(name) for name in IDENTITY}
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
