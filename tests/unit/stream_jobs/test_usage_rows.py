"""From messages of gpu-usage to rows of the ledger."""

from typing import Any

import pyarrow as pa
import pytest

from schemas.headers import USAGE
from schemas.usage import ALL_COLUMNS
from stream_jobs.errors import DeadLetter
from stream_jobs.usage_rows import PLACE, USAGE_SCHEMA, UsageMessage, decode_usage, together
from tests.ledger_rows import headers, message, payload, pod, row


def _bad(body: bytes, head: list[tuple[str, bytes]] | None = None) -> UsageMessage:
    return UsageMessage("gpu-usage", 3, 7, 0, headers() if head is None else head, body)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _table(**columns: Any) -> pa.Table:
    table = pa.Table.from_pylist([row(), pod("a")], USAGE_SCHEMA)
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def test_decode_gives_all_columns_and_the_place() -> None:
    """Every column of gpu-usage and where the message was; values and nulls as sent."""
    sent = [pod("a", used_us=5, flags=["x", "y"]), row()]
    rows = decode_usage(message(sent, offset=9, partition=2))
    assert rows.column_names == [column.name for column in ALL_COLUMNS] + list(PLACE)
    got = rows.to_pylist()
    assert [{name: value for name, value in each.items() if name not in PLACE} for each in got] == sent
    assert {tuple(each[name] for name in PLACE) for each in got} == {("gpu-usage", 2, 9)}


def test_decode_takes_dictionaries_and_more_columns() -> None:
    """Text sent as dictionaries, columns in another order and columns of a later sender change nothing."""
    table = _table(node=pa.array(["n1", "n1"]).dictionary_encode())
    shuffled = table.select(list(reversed(table.column_names))).append_column("later", pa.array([1, 2]))
    assert decode_usage(_bad(_stream(shuffled))).drop_columns(PLACE).to_pylist() == [row(), pod("a")]


def test_together_joins_messages() -> None:
    """Messages become one table, in order, also an empty one among them."""
    tables = [decode_usage(message(rows, offset)) for offset, rows in enumerate(([row()], [], [pod("a"), pod("b")]))]
    joined = together(tables)
    assert joined["pod_name"].to_pylist() == ["", "a", "b"]
    assert joined["out_offset"].to_pylist() == [0, 2, 2]


@pytest.mark.parametrize(
    ("bad", "reason", "words"),
    [
        (_bad(b""), "decode", "Arrow"),
        (_bad(b"\xff\xff\xff\xff\x10"), "decode", "Arrow"),
        (_bad(payload([row()])[:-300]), "decode", "Arrow"),
        (_bad(payload([row()]), []), "headers", "record"),
        (_bad(payload([row()]), headers(record="clock")), "record", f"expected '{USAGE}'"),
        (_bad(payload([row()]), headers(version=3)), "version", "version 3"),
        (_bad(_stream(_table().drop_columns("used_us"))), "columns", "used_us is missing"),
        (_bad(_stream(_table(charged_us=pa.array(["x", "y"])))), "columns", "charged_us is not int64"),
        (_bad(_stream(_table(charged_us=pa.array([None, 1])))), "columns", "charged_us holds 1 nulls"),
        (_bad(_stream(_table(weight_slices=pa.array([2**40, 1])))), "columns", "weight_slices is not int32"),
        (_bad(_stream(_table(flags=pa.array([["a", None], []])))), "columns", "flags holds nulls within"),
        (_bad(_stream(_table().append_column("node", pa.array(["a", "b"])))), "columns", "node"),
    ],
)  # fmt: skip
def test_wrong_message_is_a_dead_letter(bad: UsageMessage, reason: str, words: str) -> None:
    """A message that can never be rows is refused whole, with the column or header that is wrong."""
    with pytest.raises(DeadLetter) as refused:
        decode_usage(bad)
    assert refused.value.reason == reason
    assert words in refused.value.detail


def test_row_of_version_1_is_of_its_own_gpu() -> None:
    """Before version 2 no row said which GPU an instance is a part of: then it counts as a device of its own."""
    old = _bad(_stream(_table().drop_columns("parent_uuid")), headers(version=1))
    assert decode_usage(old)["parent_uuid"].to_pylist() == _table()["gpu_uuid"].to_pylist()
