"""Hand-made rows of usage and the ledgers they go into, for tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from infra.clickhouse import migrate
from schemas.headers import LIVE, USAGE, Headers, encode_headers
from stream_jobs.core.live import LIVE_SCHEMA
from stream_jobs.ledger import Ledger, open_ledger
from stream_jobs.live_sink import TABLE as LIVE_TABLE
from stream_jobs.sink import TABLE
from stream_jobs.usage_messages import ipc_stream
from stream_jobs.usage_rows import USAGE_SCHEMA, UsageMessage, decode_rows, decode_usage, together

START_US = 1_790_000_040_000_000
"""A whole minute: 2026-09-21 14:14:00 UTC."""
WINDOW_US = 60_000_000
_TEXT = ("gpu_model", "namespace", "pod_name", "pod_uid", "container_name", "owner_kind", "owner_name", "basis")
_DIFFERENCES = {
    "d_held_us": "held_us", "d_used_us": "used_us", "d_charged_us": "charged_us",
    "d_memory_byte_ms": "memory_byte_ms", "d_energy_mj": "energy_mj",
}  # fmt: skip


def row(window: int = 0, **given: Any) -> dict[str, Any]:
    """A row of an unallocated GPU in the window-th minute, with what is `given`; differences fit revision 0."""
    start = START_US + window * WINDOW_US
    base: dict[str, Any] = {field.name: None if field.nullable else 0 for field in USAGE_SCHEMA}
    base |= dict.fromkeys(_TEXT, "")
    base |= {
        "cluster": "c1", "node": "n1", "gpu_uuid": "GPU-1", "gpu_model": "H200", "window_start_us": start,
        "window_end_us": start + WINDOW_US, "holder": "unallocated", "holder_kind": "unallocated",
        "charged_us": WINDOW_US, "observed_us": WINDOW_US, "memory_observed_us": WINDOW_US,
        "energy_observed_us": WINDOW_US, "lifetime_us": WINDOW_US, "weight_slices": 1, "weight_total": 1, "flags": [],
        "meter_version": 1, "src_topic_id": "t1",
    }  # fmt: skip
    unknown = given.keys() - base.keys()
    assert not unknown, f"no such columns: {unknown}"
    base |= {"parent_uuid": given.get("gpu_uuid", base["gpu_uuid"])} | given
    return base | {d: base[absolute] or 0 for d, absolute in _DIFFERENCES.items() if d not in given}


def pod(name: str, window: int = 0, **given: Any) -> dict[str, Any]:
    """A row of the container main of a pod of namespace team, sampled."""
    uid = f"uid-{name}"
    base = {
        "holder": f"{uid}/main", "holder_kind": "pod", "namespace": "team", "pod_name": name, "pod_uid": uid,
        "container_name": "main", "basis": "sampled",
    }  # fmt: skip
    return row(window, **(base | given))


def live(each: dict[str, Any], so_far_us: int, known: int = 1) -> dict[str, Any]:
    """A row of usage as a provisional one that reaches `so_far_us` into its window, its own times as given."""
    start = each["window_start_us"]
    own = {"as_of_us": start + so_far_us, "known": known, "lifetime_us": so_far_us, "observed_us": so_far_us}
    return {name: (each | own)[name] for name in LIVE_SCHEMA.names}


def live_message(rows: Sequence[dict[str, Any]], offset: int = 0) -> UsageMessage:
    """A message of gpu-live with the rows."""
    body = ipc_stream(pa.Table.from_pylist(list(rows), LIVE_SCHEMA))
    return UsageMessage("gpu-live", 0, offset, START_US, headers(record=LIVE), body)


def insert_live(ledger: Ledger, rows: Sequence[dict[str, Any]], token: str) -> None:
    """Provisional rows into the ledger as the live sink puts them."""
    ledger.insert_arrow(LIVE_TABLE, decode_rows(live_message(rows), LIVE, LIVE_SCHEMA), token)


def payload(rows: Sequence[dict[str, Any]]) -> bytes:
    """The rows as a message of gpu-usage carries them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, USAGE_SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(list(rows), USAGE_SCHEMA))
    return sink.getvalue().to_pybytes()


def headers(**given: Any) -> list[tuple[str, bytes]]:
    """Headers of a usage message."""
    return encode_headers(Headers(**({"record": USAGE, "cluster": "c1", "node": "n1"} | given)))


def message(rows: Sequence[dict[str, Any]], offset: int = 0, partition: int = 0) -> UsageMessage:
    """A message of gpu-usage with the rows."""
    return UsageMessage("gpu-usage", partition, offset, START_US, headers(), payload(rows))


def insert(ledger: Ledger, rows: Sequence[dict[str, Any]], offset: int = 0, token: str = "test") -> None:
    """Rows into the ledger as the sink puts them, from one message."""
    ledger.insert_arrow(TABLE, together([decode_usage(message(rows, offset))]), f"{token}-{offset}")


@contextmanager
def ledger_in(directory: Path) -> Iterator[Ledger]:
    """A ledger of this version in a directory, on the real embedded engine."""
    ledger = open_ledger(directory=directory, create=True)
    try:
        migrate.apply(ledger, migrate.load())
        yield ledger
    finally:
        ledger.close()
