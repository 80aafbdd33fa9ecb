"""The HTTP front of the embedded engine, as ClickHouse's own HTTP interface, on the loopback address only.

Enough for clickhouse-connect, curl and dashboards: /ping, queries with settings and parameters in the URL, inserts,
compression, the X-ClickHouse-* headers; and /status, what the process behind it has done. Reads only unless told
otherwise. Laws: it never listens on an address that other machines reach, and never answers a page of a browser that
came under another host's name (tests/integration/test_front.py).
"""

import ipaddress
import json
import re
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from infra.front.engine import STOPPING, Engine, EngineError, Statement
from infra.front.wire import WireError, pack, read_body

_NO_SETTINGS = frozenset(
    {
        "query", "database", "default_format", "user", "password", "session_id", "session_timeout", "session_check",
        "query_id", "quota_key", "role", "compress", "decompress", "wait_end_of_query", "buffer_size",
        "client_protocol_version", "enable_http_compression", "send_progress_in_http_headers",
        "http_headers_progress_interval_ms",
    }
)  # fmt: skip
_STATUS = {STOPPING: 503, 60: 404, 81: 404, 62: 400, 47: 400, 164: 403, 497: 403}
_ASKS_SETTINGS = re.compile(rb"\s*SELECT name, value, readonly FROM system\.settings[\sA-Za-z0-9]*")
"""How clickhouse-connect asks which settings it may send; the truth is that all may come in the URL."""
_LOCAL_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
_BAD_REQUEST, _SYNTAX = 36, 62


class Front:
    """Serves an engine in threads of its own from `start` to `stop`."""

    def __init__(
        self,
        engine: Engine,
        status: Callable[[], Mapping[str, Any]],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        database: str = "gpumeter",
        read_only: bool = True,
    ) -> None:
        if not _is_loopback(host):
            raise ValueError(f"{host} is not a loopback address: the front has no passwords, it serves this machine")
        self._engine = engine
        handler = type("Handler", (_Handler,), {
            "engine": engine, "status": staticmethod(status), "database": database, "read_only": read_only,
        })  # fmt: skip
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="front", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self._server.server_address[0]!s}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; waits a little for the statement that runs."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._engine.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Handler(BaseHTTPRequestHandler):
    engine: Engine
    status: Callable[[], Mapping[str, Any]]
    database: str
    read_only: bool
    protocol_version = "HTTP/1.1"
    timeout = 600

    def do_GET(self) -> None:
        self._respond(lambda path, options, body: self._get(path, options))

    def do_POST(self) -> None:
        self._respond(lambda path, options, body: self._ask(options, body, self.read_only))

    def log_message(self, format: str, *args: Any) -> None:
        """Keeps requests out of stderr; a refused one is told to who asked."""

    def _respond(self, act: Callable[[str, dict[str, str], bytes], None]) -> None:
        try:
            if self._host() not in _LOCAL_NAMES:
                raise WireError(f"this front answers to a local name, not to {self.headers.get('Host')!r}")
            url = urlsplit(self.path)
            head = self.headers
            packing = (head.get("Content-Length"), head.get("Transfer-Encoding"), head.get("Content-Encoding"))
            body = read_body(self.rfile, *packing)
            act(url.path, dict(parse_qsl(url.query, keep_blank_values=True)), body)
        except WireError as error:
            self.close_connection = True
            self._refuse(400, _BAD_REQUEST, f"Code: {_BAD_REQUEST}. DB::Exception: {error}. (BAD_ARGUMENTS)")
        except EngineError as error:
            self.close_connection = self.close_connection or error.code == STOPPING
            self._refuse(_STATUS.get(error.code, 500), error.code, str(error))

    def _host(self) -> str:
        host = self.headers.get("Host", "")
        return host if host.endswith("]") else host.rpartition(":")[0] or host

    def _get(self, path: str, options: dict[str, str]) -> None:
        if path == "/status":
            self._send(200, json.dumps(dict(type(self).status())).encode(), {"Content-Type": "application/json"})
        elif path == "/ping" or "query" not in options:
            self._send(200, b"Ok.\n", {"Content-Type": "text/plain; charset=UTF-8"})
        else:
            self._ask(options, b"", read_only=True)

    def _ask(self, options: dict[str, str], body: bytes, read_only: bool) -> None:
        if (self.headers.get("Content-Type") or "").startswith("multipart/") or options.get("decompress") == "1":
            raise WireError("forms, external tables and ClickHouse's own block compression are not supported here")
        sql, data = (options["query"].encode(), body) if options.get("query") else (body, b"")
        if not sql.strip():
            raise EngineError("Code: 62. DB::Exception: Empty query. (SYNTAX_ERROR)", _SYNTAX)
        if data and b"FORMAT" not in sql.upper():
            sql, data = sql + b"\n" + data, b""
        read_only = read_only and not _ASKS_SETTINGS.fullmatch(sql)
        answer = self.engine.answer(
            Statement(
                sql=sql,
                data=data,
                form=options.get("default_format") or self.headers.get("X-ClickHouse-Format"),
                database=options.get("database") or self.headers.get("X-ClickHouse-Database") or self.database,
                settings={k: v for k, v in options.items() if k not in _NO_SETTINGS and not k.startswith("param_")},
                parameters={k[6:]: v for k, v in options.items() if k.startswith("param_")},
                read_only=read_only,
            )
        )
        summary = {"read_rows": answer.read_rows, "read_bytes": answer.read_bytes, "elapsed_ns": answer.elapsed_ns}
        headers = {
            "X-ClickHouse-Summary": json.dumps({name: str(value) for name, value in summary.items()}),
            "X-ClickHouse-Query-Id": options.get("query_id", ""),
            "X-ClickHouse-Timezone": "UTC",
            "X-ClickHouse-Server-Display-Name": "gpumeter",
        }
        if answer.form:
            headers["X-ClickHouse-Format"] = answer.form
        packed, encoding = answer.body, None
        if options.get("enable_http_compression") == "1" and answer.body:
            packed, encoding = pack(answer.body, self.headers.get("Accept-Encoding"))
        if encoding:
            headers["Content-Encoding"] = encoding
        self._send(200, packed, headers)

    def _refuse(self, status: int, code: int, text: str) -> None:
        headers = {"X-ClickHouse-Exception-Code": str(code), "Content-Type": "text/plain; charset=UTF-8"}
        self._send(status, f"{text}\n".encode(), headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
