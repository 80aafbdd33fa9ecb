"""The sink over a ClickHouse that fails in the ways HTTP knows: each row is there once, without a merge's help."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from infra.front.engine import Engine
from infra.front.server import Front
from stream_jobs.errors import Stop
from stream_jobs.ledger import ENGINE, Ledger, open_ledger
from stream_jobs.publish import Outgoing
from stream_jobs.sink import TABLE, Sink, SinkSettings
from stream_jobs.usage_rows import UsageMessage, decode_usage
from tests.ledger_rows import ledger_in, message, pod, row

DAY = 24 * 60
MESSAGES = [message([row(0), pod("a", 0)], 0), message([row(DAY), pod("b", DAY)], 1), message([row(2 * DAY)], 2)]


class _Proxy(BaseHTTPRequestHandler):
    """Passes requests on to a front; each insert of usage rows is spoiled by the next of `faults`."""

    protocol_version = "HTTP/1.1"
    target: str
    faults: list[Callable[["_Proxy", bytes], None]]

    def do_GET(self) -> None:
        self.pass_on(b"")

    def do_POST(self) -> None:
        body = self._body()
        text = self.path.encode() + body[:200]
        spoilt = self.faults and TABLE.encode() in text and b"INSERT" in text
        (self.faults.pop(0) if spoilt else _Proxy.pass_on)(self, body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def pass_on(self, body: bytes) -> None:
        """Gives the front's answer."""
        answer, head = self.forward(body)
        self.send_response(200)
        for name, value in head.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def forward(self, body: bytes) -> tuple[bytes, Mapping[str, str]]:
        """What the front answers."""
        kept = ("Content-Type", "Content-Encoding", "Accept-Encoding")
        head = {name: value for name, value in self.headers.items() if name in kept}
        with build_opener(ProxyHandler({})).open(Request(self.target + self.path, body or None, head)) as answer:
            return answer.read(), answer.headers

    def cut(self) -> None:
        """Resets the connection."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _body(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


def _says(status: int, code: int = 0) -> Callable[[_Proxy, bytes], None]:
    """Answers with a status: with a code of ClickHouse's, or as a balancer before it does."""

    def fault(request: _Proxy, body: bytes) -> None:
        text = f"Code: {code}. DB::Exception: not now".encode() if code else b"<html>upstream</html>"
        request.send_response(status)
        if code:
            request.send_header("X-ClickHouse-Exception-Code", str(code))
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    return fault


def _cuts(request: _Proxy, body: bytes) -> None:
    request.cut()


def _loses_the_answer(request: _Proxy, body: bytes) -> None:
    request.forward(body)
    request.cut()


class _Kafka:
    """Reader and letters: all messages at once; then nothing, and the end once they are committed."""

    trouble = ""

    def __init__(self, messages: list[UsageMessage], stop: threading.Event) -> None:
        self._messages, self._stop = messages, stop
        self.committed: dict[int, int] = {}
        self.letters: list[Outgoing] = []

    def ends(self) -> dict[int, int]:
        return {}

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        found, self._messages = self._messages, []
        return found

    def commit(self, next_offsets: Mapping[int, int], report: Callable[[str], None]) -> None:
        self.committed = dict(next_offsets)
        self._stop.set()

    def send(self, message: Outgoing) -> None:
        self.letters.append(message)

    def flush(self) -> None:
        """All is acknowledged."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Ledger, str, list[Any]]]:
    """The ledger itself, the URL of a proxy before it, and the faults that are to come."""
    faults: list[Any] = []
    with ledger_in(tmp_path) as ledger:
        front = Front(Engine(tmp_path / ENGINE), dict, read_only=False)
        front.start()
        proxy = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Proxy,), {"target": front.url, "faults": faults})
        )
        proxy.daemon_threads = True
        thread = threading.Thread(target=proxy.serve_forever, args=(0.05,))
        thread.start()
        yield ledger, f"http://127.0.0.1:{proxy.server_address[1]}", faults
        proxy.shutdown()
        thread.join()
        proxy.server_close()
        front.stop()


def _sink(url: str) -> tuple[Sink, _Kafka]:
    stop = threading.Event()
    kafka, opened = _Kafka(list(MESSAGES), stop), open_ledger(url=url)
    sink = Sink(kafka, opened, kafka, SinkSettings(topic_id="t", flush_s=0.0, backoff_s=0.01, backoff_max_s=0.02))
    try:
        sink.run(stop)
    finally:
        opened.close()
    return sink, kafka


TWICE = {
    "cut before": _cuts,
    "answer lost": _loses_the_answer,
    "502 of a balancer": _says(502),
    "503 of a balancer": _says(503),
    "504 of a balancer": _says(504),
    "429 of a balancer": _says(429),
    "memory": _says(500, 241),
    "too many parts": _says(500, 252),
    "status unknown": _says(500, 319),
    "shutting down": _says(500, 236),
    "overloaded": _says(503, 745),
    "no quorum": _says(500, 285),
}


@pytest.mark.parametrize("fault", TWICE)
def test_sink_tries_again_until_each_row_is_there_once(place: tuple[Ledger, str, list[Any]], fault: str) -> None:
    """Whatever goes wrong with a block of three days, twice: in the end each row is on disk once, nothing refused."""
    ledger, url, faults = place
    faults += [TWICE[fault]] * 2
    sink, kafka = _sink(url)
    assert faults == []
    assert ledger.query("SELECT count(), uniqExact(out_offset, holder) FROM usage_ledger") == [(5, 5)]
    assert (kafka.committed, kafka.letters) == ({0: 3}, [])
    assert sink.status()["retries"] >= 1


def test_block_that_was_half_accepted_is_completed(place: tuple[Ledger, str, list[Any]]) -> None:
    """Of a block of three days one day's part was written when the server died: the retry adds the other two."""
    ledger, url, faults = place

    def half(request: _Proxy, body: bytes) -> None:
        (token,) = parse_qs(urlsplit(request.path).query)["insert_deduplication_token"]
        ledger.insert_arrow(TABLE, decode_usage(MESSAGES[1]), token)
        request.cut()

    faults.append(half)
    _, kafka = _sink(url)
    assert ledger.query("SELECT count(), uniqExact(out_offset, holder) FROM usage_ledger") == [(5, 5)]
    assert kafka.committed == {0: 3}


@pytest.mark.parametrize("code", [60, 16, 516, 497])
def test_sink_stops_where_trying_again_would_not_help(place: tuple[Ledger, str, list[Any]], code: int) -> None:
    """No table, another column, a wrong password, no right: it stops with the reason, nothing passed or refused."""
    ledger, url, faults = place
    faults.append(_says(500, code))
    with pytest.raises(Stop, match="Nothing was committed"):
        _sink(url)
    assert ledger.query("SELECT count() FROM sink_progress") == [(0,)]
