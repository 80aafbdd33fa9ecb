"""From messages of gpu-usage to rows of the ledger: decoded, checked, with their place in Kafka beside them.

Pure. Laws: a message gives all its rows or none; a null is only where the schema allows one
(tests/unit/stream_jobs/test_usage_rows.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.headers import USAGE, HeaderError, decode_headers, newest_version
from schemas.usage import ALL_COLUMNS, SAME_AS

from .arrow_framing import refuse_unplain
from .decode import arrow_schema
from .errors import DeadLetter

USAGE_SCHEMA = arrow_schema(ALL_COLUMNS)
PLACE = ("out_topic", "out_partition", "out_offset")


class UsageMessage(NamedTuple):
    """A message of gpu-usage as Kafka has it."""

    topic: str
    partition: int
    offset: int
    append_us: int
    headers: list[tuple[str, bytes]]
    payload: bytes


def decode_usage(message: UsageMessage) -> pa.Table:
    """Rows of a message, text as dictionaries, with PLACE; DeadLetter says why they can never be rows."""
    return _with_place(decode_rows(message, USAGE, USAGE_SCHEMA), message)


def decode_rows(message: UsageMessage, record: str, schema: pa.Schema) -> pa.Table:
    """Rows of a message of one kind of record, text as dictionaries; DeadLetter as above."""
    _check_headers(message, record)
    try:
        refuse_unplain(message.payload)
        table = pa.ipc.open_stream(message.payload).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DeadLetter("decode", f"not an Arrow IPC stream: {error}") from error
    columns = [_column(table, field) for field in schema]
    return pa.table(columns, schema=pa.schema([f.with_type(c.type) for f, c in zip(schema, columns, strict=True)]))


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several messages as one table."""
    return pa.concat_tables(tables)


def _check_headers(message: UsageMessage, record: str) -> None:
    try:
        headers = decode_headers(message.headers)
    except HeaderError as error:
        raise DeadLetter("headers", str(error)) from error
    if headers.record != record:
        raise DeadLetter("record", f"record {headers.record!r}, expected {record!r}")
    newest = newest_version(record)
    if not 1 <= headers.version <= newest:
        raise DeadLetter("version", f"version {headers.version}, this sink reads 1 to {newest}")


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    name = field.name
    if table.schema.get_all_field_indices(name) == []:
        name = SAME_AS.get(name, name)
    if table.schema.get_all_field_indices(name) == []:
        raise DeadLetter("columns", f"column {field.name} is missing")
    try:
        column = table.column(name).cast(field.type)
    except (pa.ArrowException, KeyError) as error:
        raise DeadLetter("columns", f"column {field.name} is not {field.type}: {error}") from error
    if column.null_count and not field.nullable:
        raise DeadLetter("columns", f"column {field.name} holds {column.null_count} nulls, it may hold none")
    if pa.types.is_list(field.type) and pc.list_flatten(column).null_count:
        raise DeadLetter("columns", f"column {field.name} holds nulls within its lists")
    return column.dictionary_encode() if pa.types.is_string(field.type) else column


def _with_place(rows: pa.Table, message: UsageMessage) -> pa.Table:
    count = rows.num_rows
    topic = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([message.topic]))
    place = (topic, pa.repeat(pa.scalar(message.partition, pa.int32()), count), _offsets(message.offset, count))
    for name, column in zip(PLACE, place, strict=True):
        rows = rows.append_column(name, column)
    return rows


def _offsets(offset: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(offset, pa.uint64()), count)
