"""Turns closed windows into messages of gpu-usage: one node and at most BYTES_PER_MESSAGE each, Arrow IPC.

Pure. Law: the rows of the messages are the rows of the table, each once, in order of node
(tests/unit/stream_jobs/test_usage_messages.py).
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from schemas.headers import USAGE, Headers, encode_headers
from schemas.ids import message_key
from schemas.names import GPU_USAGE

from .publish import Outgoing

ROWS_PER_MESSAGE = 1_000
"""Usually about 350 bytes a row; with the longest names of Kubernetes, three times that."""
BYTES_PER_MESSAGE = 800_000
"""Below Kafka's default limit of 1 MB."""


def usage_messages(table: pa.Table, partition: int) -> Iterator[Outgoing]:
    """Messages of a table of ALL_COLUMNS, for the usage partition that belongs to the input partition."""
    pairs = sorted(set(zip(table["cluster"].to_pylist(), table["node"].to_pylist(), strict=True)))
    for cluster, node in pairs:
        own = table if len(pairs) == 1 else table.filter(_is_of(table, cluster, node))
        headers = encode_headers(Headers(record=USAGE, cluster=cluster, node=node))
        for at in range(0, own.num_rows, ROWS_PER_MESSAGE):
            for payload in _payloads(own.slice(at, ROWS_PER_MESSAGE)):
                yield Outgoing(GPU_USAGE, partition, message_key(cluster, node), headers, payload)


def _is_of(table: pa.Table, cluster: str, node: str) -> pa.ChunkedArray:
    return pc.and_(pc.equal(table["cluster"], cluster), pc.equal(table["node"], node))


def _payloads(table: pa.Table) -> Iterator[bytes]:
    """The rows as one payload, or by halves where that is too long for a message."""
    payload = ipc_stream(table)
    if len(payload) <= BYTES_PER_MESSAGE or table.num_rows == 1:
        yield payload
    else:
        middle = table.num_rows // 2
        yield from _payloads(table.slice(0, middle))
        yield from _payloads(table.slice(middle))


def ipc_stream(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    payload: bytes = sink.getvalue().to_pybytes()
    return payload
