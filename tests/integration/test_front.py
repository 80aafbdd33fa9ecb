"""The HTTP front over the embedded engine, asked as clickhouse-connect, curl and a hostile page would."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clickhouse_connect
import cramjam
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from infra.front.engine import Engine
from infra.front.server import Front
from stream_jobs.ledger import ENGINE
from tests.ledger_rows import insert, ledger_in, pod, row


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    """A reading front over a ledger with two rows."""
    with ledger_in(tmp_path) as ledger:
        insert(ledger, [pod("a", used_us=5), row(1)])
        front = Front(Engine(tmp_path / ENGINE), lambda: {"rows": 2, "next_offsets": {"0": 1}})
        front.start()
        yield front
        front.stop()


def _port(front: Front) -> int:
    return int(front.url.rpartition(":")[2])


def _ask(
    front: Front, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", _port(front), timeout=20)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_front_answers_ping_and_status(front: Front) -> None:
    """/ping is ClickHouse's; /status tells what the process behind has done."""
    assert _ask(front, "GET", "/ping")[::2] == (200, b"Ok.\n")
    assert json.loads(_ask(front, "GET", "/status")[2]) == {"rows": 2, "next_offsets": {"0": 1}}


@pytest.mark.parametrize("compress", [True, False, "lz4", "zstd", "gzip"])
def test_front_serves_clickhouse_connect(front: Front, compress: Any) -> None:
    """query, query_arrow, command, parameters and an empty result, with every compression its client uses."""
    client = clickhouse_connect.get_client(host="127.0.0.1", port=_port(front), compress=compress)
    assert client.ping()
    assert client.command("SELECT count() FROM usage_current") == 2
    assert client.query("SELECT {p:String} AS p, number FROM numbers(2)", parameters={"p": "a'b"}).result_rows == [
        ("a'b", 0),
        ("a'b", 1),
    ]
    assert client.query_arrow("SELECT toInt64(5) AS n").to_pydict() == {"n": [5]}
    empty = client.query("SELECT pod_name, used_us FROM usage_current WHERE pod_name = 'nobody'")
    assert (list(empty.column_names), empty.result_rows) == (["pod_name", "used_us"], [])
    assert client.query("SELECT getSetting('max_threads')", settings={"max_threads": 3}).result_rows == [(3,)]
    client.close()


def test_front_tells_errors_as_clickhouse_does(front: Front) -> None:
    """A refused statement has the code in its header and the text in its body; the driver reads both."""
    status, headers, body = _ask(front, "POST", "/", b"SELECT 1 FROM nowhere")
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (404, "60")
    assert body.startswith(b"Code: 60. DB::Exception: Unknown table")
    client = clickhouse_connect.get_client(host="127.0.0.1", port=_port(front))
    with pytest.raises(DatabaseError) as refused:
        client.command("SELEC 1")
    assert refused.value.code == 62
    client.close()


def test_front_answers_curl(front: Front) -> None:
    """GET with the query in the URL, POST with it in the body, a default format and compression as asked."""
    assert _ask(front, "GET", "/?query=SELECT%201%2B1")[2] == b"2\n"
    got = _ask(front, "POST", "/?default_format=JSONEachRow&max_threads=1", b"SELECT 1 AS a;")
    assert (got[2], got[1]["X-ClickHouse-Format"]) == (b'{"a":1}\n', "JSONEachRow")
    packed = _ask(front, "POST", "/?enable_http_compression=1", b"SELECT 1", Accept_Encoding="br, gzip;q=1")
    assert (packed[1]["Content-Encoding"], bytes(cramjam.gzip.decompress(packed[2]))) == ("gzip", b"1\n")
    sent = _ask(front, "POST", "/", bytes(cramjam.zstd.compress(b"SELECT 3")), Content_Encoding="zstd")
    assert sent[2] == b"3\n"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE usage_ledger",
        "INSERT INTO sink_progress (topic) VALUES ('x')",
        "INSERT INTO sink_progress (topic) FORMAT TSV\nx",
        "SET readonly = 0",
        "SELECT 1 SETTINGS readonly = 0",
        "SELECT * FROM file('/etc/hostname', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
        "SELECT 1 INTO OUTFILE '{out}'",
        "SELECT 1 INTO /* x */ OUTFILE '{out}'",
        "SELECT 1 INTO -- x\n OUTFILE '{out}'",
        "SELECT 1 INTO#x\nOUTFILE '{out}'",
    ],
)
def test_front_only_reads_the_ledger(front: Front, tmp_path: Path, statement: str) -> None:
    """Nothing that writes, or reads or writes other files of the machine, is done."""
    out = tmp_path / "out"
    for path in ("/", "/?readonly=0"):
        status, headers, _ = _ask(front, "POST", path, statement.replace("{out}", str(out)).encode())
        assert status >= 400, statement
        assert headers["X-ClickHouse-Exception-Code"] != "0"
    assert not out.exists()
    assert _ask(front, "POST", "/", b"SELECT count() FROM usage_ledger")[2] == b"2\n"


def test_front_answers_only_to_local_names(front: Front) -> None:
    """A page of another host whose name was bound to this machine gets nothing."""
    status, _, body = _ask(front, "POST", "/", b"SELECT 1", Host="evil.example:80")
    assert (status, b"evil.example" in body) == (400, True)
    for host in ("localhost:1", "127.0.0.1", "[::1]:5"):
        assert _ask(front, "GET", "/ping", Host=host)[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "::", "example.org"])
def test_front_refuses_to_listen_for_other_machines(tmp_path: Path, host: str) -> None:
    """An address that other machines reach is refused before anything listens."""
    with pytest.raises(ValueError, match="loopback"):
        Front(Engine(tmp_path), dict, host=host)


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("POST", "/", b"", {}),
        ("POST", "/", b"\xff\xfe\x00", {}),
        ("POST", "/", b"not gzip", {"Content_Encoding": "gzip"}),
        ("POST", "/", b"x", {"Content_Encoding": "snappy"}),
        ("POST", "/", b"x", {"Content_Type": "multipart/form-data; boundary=x"}),
        ("POST", "/?bad%20name=1", b"SELECT 1", {}),
        ("POST", "/?no_such_setting=1", b"SELECT 1", {}),
        ("POST", "/?database=nowhere", b"SELECT 1", {}),
        ("POST", "/?default_format=Nonsense", b"SELECT 1", {}),
        ("GET", "/?query=DROP%20TABLE%20usage_ledger", None, {}),
    ],
)
def test_front_survives_wrong_requests(
    front: Front, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> None:
    """A request that makes no sense is refused with a reason, and the next one is answered."""
    status, _, text = _ask(front, method, path, body, **headers)
    assert status >= 400
    assert text.strip()
    assert _ask(front, "GET", "/?query=SELECT%201")[2] == b"1\n"
