"""What the messages of an Arrow IPC stream say of their bodies, read before a body is: none may be compressed.

A megabyte of compressed zeros is gigabytes as columns, which would end a worker by its memory, and again at the same
offset. No encoder of ours compresses: Kafka does. Reads flatbuffers' tables by hand (Arrow's Message.fbs). Law: what it
passes has no compressed body (tests/unit/stream_jobs/test_arrow_framing.py).
"""

import struct

import pyarrow as pa

_HEADER_TYPE, _HEADER = 1, 2
"""Fields of Message."""
_SCHEMA, _DICTIONARY, _RECORD_BATCH = 1, 2, 3
"""Types of its header; the others, tensors, are in no stream of ours."""
_DATA, _COMPRESSION = 1, 3
"""Fields of DictionaryBatch, which holds a RecordBatch, and of RecordBatch."""


def refuse_unplain(payload: bytes, at: int = 0) -> None:
    """ValueError where some message of the stream at a byte is compressed, or no schema and no batch."""
    source = pa.BufferReader(payload)
    source.seek(at)
    for message in pa.ipc.MessageReader.open_stream(source):
        refuse_compressed(message)


def refuse_compressed(message: pa.ipc.Message) -> None:
    """ValueError where a message's body is compressed, or is no schema and no batch."""
    data = message.metadata.to_pybytes()
    try:
        table = struct.unpack_from("<I", data)[0]
        kind_at, header_at = _field(data, table, _HEADER_TYPE), _field(data, table, _HEADER)
        kind = data[kind_at] if kind_at else 0
        batch = _follow(data, header_at)
        if kind == _DICTIONARY:
            batch = _follow(data, _field(data, batch, _DATA))
        is_compressed = kind != _SCHEMA and _field(data, batch, _COMPRESSION) > 0
    except (struct.error, IndexError) as error:
        raise ValueError(f"an Arrow message whose metadata cannot be read: {error}") from error
    if kind not in (_SCHEMA, _DICTIONARY, _RECORD_BATCH):
        raise ValueError(f"an Arrow message of type {kind}, expected a schema or a batch")
    if is_compressed:
        raise ValueError("a compressed Arrow batch: its columns may be any size; write the stream without compression")


def _follow(data: bytes, at: int) -> int:
    return int(at + struct.unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffers table lies, 0 where it is left out."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    entry = 4 + 2 * number
    if vtable < 0 or entry >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", data, vtable + entry)[0]
    return int(table + offset) if offset else 0
