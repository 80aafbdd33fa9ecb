"""Messages of provisional rows: everything once, no set parted, none too long."""

import pyarrow as pa
import pytest

from stream_jobs import live_messages as subject
from stream_jobs.core.live import LIVE_SCHEMA
from stream_jobs.live_messages import live_messages
from tests.ledger_rows import live, pod

SET = ("cluster", "node", "gpu_uuid", "window_start_us")


def _table(sets: int, rows: int, name: str = "p") -> pa.Table:
    each = [
        live(pod(f"{name}{n}", s % 2, gpu_uuid=f"GPU-{s % 8}", node=f"n{s // 8}"), 5)
        for s in range(sets)
        for n in range(rows)
    ]
    return pa.Table.from_pylist(each, LIVE_SCHEMA)


def _payloads(table: pa.Table) -> list[pa.Table]:
    return [pa.ipc.open_stream(message.payload).read_all() for message in live_messages(table, 3)]


@pytest.mark.parametrize(("sets", "rows"), [(0, 0), (1, 1), (40, 7), (9, 400), (3, 2000)])
def test_messages_hold_each_row_once_and_no_set_is_parted(sets: int, rows: int) -> None:
    """The messages' rows are the table's in its order, and a set of rows is in one message."""
    table = _table(sets, rows)
    found = _payloads(table)
    assert pa.concat_tables(found).equals(table) if sets else found == []
    places = [{tuple(row[name] for name in SET) for row in part.select(SET).to_pylist()} for part in found]
    assert sum(len(place) for place in places) == len(set().union(*places))
    assert all(part.num_rows <= max(subject.ROWS_PER_MESSAGE, rows) for part in found)


def test_many_nodes_share_a_message() -> None:
    """Sets of many nodes go together: the cost is by message, not by node."""
    assert len(_payloads(_table(200, 7))) == 1


def test_what_is_too_long_is_parted_or_left_out() -> None:
    """Sets that are too long together go by halves; one that is too long alone is left out and the others arrive."""
    huge, small = _table(1, 1500, "x" * 600), _table(3, 2)
    together = pa.concat_tables([_table(4, 300, "y" * 600), huge.slice(0, 0), small])
    assert pa.concat_tables(_payloads(together)).equals(together)
    assert len(_payloads(together)) > 1
    assert _payloads(huge) == []
