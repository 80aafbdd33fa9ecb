import pyarrow as pa

from schemas.headers import decode_headers
from schemas.names import GPU_USAGE
from schemas.usage import ALL_COLUMNS
from stream_jobs.decode import arrow_schema
from stream_jobs.usage_messages import ROWS_PER_MESSAGE, usage_messages

BLANK = {"utf8": "", "list<utf8>": []}


def _table(nodes: list[str]) -> pa.Table:
    rows = [
        {c.name: BLANK.get(c.type, 0) for c in ALL_COLUMNS} | {"cluster": "c", "node": node, "window_start_us": i}
        for i, node in enumerate(nodes)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(ALL_COLUMNS))


def test_messages_hold_every_row_once() -> None:
    """The rows of all messages are the rows of the table, each once, one node a message."""
    table = _table(["a", "b", "a"] + ["a"] * ROWS_PER_MESSAGE)
    found = []
    for message in usage_messages(table, 3):
        rows = pa.ipc.open_stream(message.payload).read_all()
        assert rows.schema == table.schema
        assert rows.num_rows <= ROWS_PER_MESSAGE
        assert set(rows["node"].to_pylist()) == {decode_headers(message.headers).node}
        assert (message.topic, message.partition) == (GPU_USAGE, 3)
        found += rows["window_start_us"].to_pylist()
    assert sorted(found) == table["window_start_us"].to_pylist()


def test_messages_of_long_names_fit_into_kafka() -> None:
    """Rows with the longest names are sent in more messages, each below Kafka's limit, and none is lost."""
    table = _table(["a"] * ROWS_PER_MESSAGE)
    for name in ("pod_name", "owner_name", "holder"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(["\u00fc" * 512] * ROWS_PER_MESSAGE))
    payloads = [message.payload for message in usage_messages(table, 0)]
    assert max(map(len, payloads)) < 900_000
    rows = [row for p in payloads for row in pa.ipc.open_stream(p).read_all()["window_start_us"].to_pylist()]
    assert rows == table["window_start_us"].to_pylist()
