"""HTTP side of the simulated API server: one thread a connection, JSON answers, watches in chunks.

Decides nothing but how bytes go out; what is seen is kube_api's and kube_log's (tests/contracts/test_kube_api.py).
"""

import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from infra.sim.kube_log import Expired
from infra.sim.kube_objects import Json

if TYPE_CHECKING:
    from infra.sim.kube_api import KubeApi


class KubeServer(ThreadingHTTPServer):
    """Listens and remembers its connections, so that a stop cuts them as a killed server does."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type, api: "KubeApi", tls: ssl.SSLContext | None) -> None:
        self.api = api
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts a connection."""
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._guard:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection."""
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        """Ends all connections at once."""
        with self._guard:
            left, self._open = self._open, set()
        for connection in left:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the other side was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the other side or `cut` ended is no error here."""


class KubeHttp(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: KubeServer

    def do_GET(self) -> None:
        """A list, an object or a watch."""
        self._serve("GET")

    def do_PATCH(self) -> None:
        """A merge patch."""
        self._serve("PATCH")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a watcher's calls are not news."""

    def _serve(self, method: str) -> None:
        api = self.server.api
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if api.refuse_status:
            return self._reply(api.refuse_status, _refusal(api.refuse_status, "switched off"))
        if api.token and self.headers.get("Authorization") != f"Bearer {api.token}":
            return self._reply(401, _refusal(401, "Unauthorized"))
        status, content = api.answer(method, self.path, body)
        if isinstance(status, int):
            return self._reply(status, content)
        return self._watch(status, content)

    def _reply(self, status: int, content: Json) -> None:
        payload = msgspec.json.encode(content)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _watch(self, resource: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        api = self.server.api
        generation, version = api.watches, int(query.get("resourceVersion") or api.log.version)
        end_s = monotonic() + float(query.get("timeoutSeconds", "300"))
        bookmark_s = monotonic() + api.bookmark_s
        while monotonic() < end_s and api.watches == generation:
            try:
                lines, version = self._wait(resource, version, generation, min(end_s, bookmark_s) - monotonic())
            except Expired as error:
                self._line(_event("ERROR", _refusal(410, str(error))))
                break
            if lines:
                self._line(lines)
            if monotonic() >= bookmark_s and query.get("allowWatchBookmarks") == "true":
                self._line(_event("BOOKMARK", {"kind": resource, "metadata": {"resourceVersion": str(version)}}))
                bookmark_s = monotonic() + api.bookmark_s
        self.wfile.write(b"0\r\n\r\n")

    def _wait(self, resource: str, version: int, generation: int, wait_s: float) -> tuple[bytes, int]:
        """Lines above `version`, once there are some or the time is over, and the version they lead to."""
        api, log = self.server.api, self.server.api.log
        with log.changed:
            log.changed.wait_for(lambda: log.version > version or api.watches != generation, max(0.0, wait_s))
            if api.watches != generation:
                return b"", version
            return b"".join(entry.line for entry in log.after(version, resource)), log.version

    def _line(self, payload: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))


def _event(type_: str, content: Json) -> bytes:
    return msgspec.json.encode({"type": type_, "object": content}) + b"\n"


def _refusal(code: int, message: str) -> Json:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}
