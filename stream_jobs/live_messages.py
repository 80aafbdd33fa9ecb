"""Turns provisional rows into messages of gpu-live: many nodes each, all rows of a GPU's window in one. Pure.

Law: the rows of the messages are the rows of the table, and no set of rows that counts as a whole is parted
(tests/unit/stream_jobs/test_live_messages.py).
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from schemas.headers import LIVE, Headers, encode_headers
from schemas.names import GPU_LIVE

from .publish import Outgoing
from .usage_messages import BYTES_PER_MESSAGE, ipc_stream

ROWS_PER_MESSAGE = 1_500
_SET = ("cluster", "node", "gpu_uuid", "window_start_us")
_HEADERS = encode_headers(Headers(record=LIVE, cluster=""))


def live_messages(table: pa.Table, partition: int) -> Iterator[Outgoing]:
    """Messages of a table of LIVE_COLUMNS in which each set's rows follow each other."""
    starts = [*_starts(table), table.num_rows]
    first = 0
    while first < len(starts) - 1:
        last = first + 1
        while last < len(starts) - 1 and starts[last + 1] - starts[first] <= ROWS_PER_MESSAGE:
            last += 1
        yield from _parted(table, starts[first : last + 1], partition)
        first = last


def _starts(table: pa.Table) -> list[int]:
    """Where each set begins."""
    new = np.zeros(table.num_rows, bool)
    new[:1] = True
    for name in _SET:
        column = table[name].combine_chunks()
        new[1:] |= np.asarray(column[1:]) != np.asarray(column[:-1])
    return np.flatnonzero(new).tolist()


def _parted(table: pa.Table, starts: list[int], partition: int) -> Iterator[Outgoing]:
    """The sets as one message, or by halves where that is too long; a single one that is too long is left out."""
    payload = ipc_stream(table.slice(starts[0], starts[-1] - starts[0]))
    if len(payload) <= BYTES_PER_MESSAGE:
        yield Outgoing(GPU_LIVE, partition, b"", _HEADERS, payload)
    elif len(starts) > 2:
        middle = len(starts) // 2
        yield from _parted(table, starts[: middle + 1], partition)
        yield from _parted(table, starts[middle:], partition)
