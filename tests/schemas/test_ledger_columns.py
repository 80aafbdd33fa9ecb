"""The ledger's table and the record gpu-usage have the same columns: both ways, names, types and nulls."""

import re

from infra.clickhouse.migrate import load
from schemas.live import LIVE_COLUMNS
from schemas.usage import ALL_COLUMNS, KEY_COLUMNS
from stream_jobs.usage_rows import PLACE

_TYPES = {
    "utf8": "LowCardinality(String)",
    "int32": "Int32",
    "int64": "Int64",
    "list<utf8>": "Array(LowCardinality(String))",
}
_OWN = {*PLACE, "ingested_at", "window_start", "window_end", "_first_wins"}
"""Columns that the ledger adds: place in Kafka, time of insert, times for people, version of a copy."""


def _table(name: str = "usage_ledger") -> str:
    (statement,) = [s for m in load() for s in m.statements if s.startswith(f"CREATE TABLE IF NOT EXISTS {name}\n")]
    return statement


def _columns(name: str = "usage_ledger") -> dict[str, str]:
    pattern = r"^    (?:ADD COLUMN IF NOT EXISTS )?(\w+) (.+?) (?:CODEC|DEFAULT|MATERIALIZED)\b"
    later = [s for m in load() for s in m.statements if re.match(rf"ALTER TABLE {name}\s+ADD COLUMN", s)]
    found = re.findall(pattern, "\n".join([_table(name), *later]), re.MULTILINE)
    return {name: kind for name, kind in found if name not in ("INDEX", "CONSTRAINT")}


def test_ledger_has_each_column_of_usage() -> None:
    """Every column of gpu-usage is in the ledger with its type, nullable exactly where the schema says."""
    columns = _columns()
    for column in ALL_COLUMNS:
        plain = _TYPES[column.type]
        assert columns.get(column.name) == (f"Nullable({plain})" if column.nullable else plain), column.name


def test_ledger_has_no_column_besides_usage() -> None:
    """A column of the ledger is one of gpu-usage or one that the ledger is known to add."""
    assert _columns().keys() - {column.name for column in ALL_COLUMNS} == _OWN


def test_ledger_key_is_the_key_of_usage() -> None:
    """The ledger replaces rows by exactly the key by which gpu-usage is idempotent."""
    match = re.search(r"^ORDER BY \((.*)\)$", _table(), re.MULTILINE)
    assert match
    assert sorted(match[1].split(", ")) == sorted(KEY_COLUMNS)


def test_table_of_provisional_rows_is_the_record() -> None:
    """usage_live has the columns of gpu-live, with their types, and two of its own."""
    columns = _columns("usage_live")
    for column in LIVE_COLUMNS:
        plain = _TYPES[column.type]
        assert columns.pop(column.name) == (f"Nullable({plain})" if column.nullable else plain), column.name
    assert columns.keys() == {"_known", "received_at"}
