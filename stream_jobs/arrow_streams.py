"""Reads Arrow IPC streams of one schema cheaply: the bytes of a schema message that was seen before are not read again.

Knows Arrow's framing (a message is FFFFFFFF, the length of its metadata, metadata, body), nothing of what the columns
mean. Law: what the short way reads equals what Arrow's own stream reader reads (tests/unit/stream_jobs/test_decode.py).
"""

from collections.abc import Mapping

import pyarrow as pa

from .arrow_framing import refuse_compressed, refuse_unplain

_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + bytes(4)
_MOST_REMEMBERED = 16
"""Each encoder writes one schema message for a schema; more than a few come from a sender that means harm."""


class StreamReader:
    """Reads streams of a schema that lie in payloads, one behind the other.

    `added` are the schema's last columns, which older streams lack, each with what it says there.
    """

    def __init__(self, schema: pa.Schema, added: Mapping[str, str | int] | None = None) -> None:
        self._schema, self._added = schema, dict(added or {})
        self._older = pa.schema([field for field in schema if field.name not in self._added])
        self._known: dict[bytes, pa.Schema] = {}

    def read(self, payload: bytes, at: int) -> tuple[list[pa.RecordBatch], int]:
        """Batches of the stream at a byte of the payload, not validated, and where it ends.

        Raises ArrowException or OSError where there is no stream, ValueError where it has other columns.
        """
        head = payload[at : at + _length_of_head(payload, at)]
        if head in self._known:
            short = self._read_one(payload, at + len(head), self._known[head])
            if short is not None:
                return [self._whole(short[0])], short[1]
        refuse_unplain(payload, at)
        source = pa.BufferReader(payload)
        source.seek(at)
        table = pa.ipc.open_stream(source).read_all()
        names, types = table.schema.names, table.schema.types
        schema = self._older if len(names) == len(self._older.names) else self._schema
        if names != schema.names or types != schema.types:
            raise ValueError(f"columns {names} of {types}, expected {schema.names}")
        batches = pa.Table.from_arrays(table.columns, schema=schema).to_batches()
        if len(batches) == 1 and len(self._known) < _MOST_REMEMBERED:
            self._remember(payload, at, head, batches[0])
        return [self._whole(batch) for batch in batches], source.tell()

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with all columns of the schema."""
        if len(batch.columns) == len(self._schema.names):
            return batch
        more = [
            pa.repeat(pa.scalar(value, self._schema.field(name).type), batch.num_rows)
            for name, value in self._added.items()
        ]
        return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=self._schema)

    def _remember(self, payload: bytes, at: int, head: bytes, batch: pa.RecordBatch) -> None:
        """Remembers a schema message if its stream reads alike without it, e.g. its numbers are not big-endian."""
        batch.validate(full=True)
        short = self._read_one(payload, at + len(head), batch.schema)
        if short is None:
            return
        short[0].validate(full=True)
        if short[0].equals(batch):
            self._known[head] = batch.schema

    def _read_one(self, payload: bytes, at: int, schema: pa.Schema) -> tuple[pa.RecordBatch, int] | None:
        """The only batch of a stream whose schema message ends at a byte; None where the stream is anything else."""
        source = pa.BufferReader(payload)
        source.seek(at)
        try:
            message = pa.ipc.read_message(source)
            refuse_compressed(message)
            batch = pa.ipc.read_record_batch(message, schema)
        except (pa.ArrowException, OSError, EOFError):
            return None
        end = source.tell()
        return (batch, end + len(_END)) if payload[end : end + len(_END)] == _END else None


def _length_of_head(payload: bytes, at: int) -> int:
    return 8 + int.from_bytes(payload[at + 4 : at + 8], "little") if payload[at : at + 4] == _CONTINUES else 0
