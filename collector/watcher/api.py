"""HTTP to the API server: lists in chunks, watches line by line, one merge patch; http.client and nothing else.

Must not know what the objects mean. A watch is read by its own small thread, so that its lines can be awaited with a
limit. Laws: a failed call is Retry, or Gone where the server says 410; the token file is read anew at each call, as
tokens are rotated; no line is lost between a watch's first and its end (tests/integration/test_watcher_on_api.py).
"""

import contextlib
import http.client
import queue
import socket
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from collector.errors import Retry

from .api_objects import Status

ANSWER_TIMEOUT_S = 30.0
SILENCE_S = 120.0
"""Longest silence of a watch; the server sends a bookmark about every 60 s."""
LINES_AHEAD = 10_000
MERGE_PATCH = "application/merge-patch+json"


class Gone(Retry):
    """The server no longer has the history asked for (410): list again."""


class Ended(Retry):
    """The watch is over; what it gave is whole up to its last line."""


class Access(NamedTuple):
    """Where the API server is and how to be let in; empty token and CA files: none."""

    url: str
    token_file: str = ""
    ca_file: str = ""


def failure(status: int, body: bytes, what: str) -> Retry:
    """The error that an answer other than 2xx is."""
    try:
        told = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        told = Status(message=body[:200].decode("utf-8", "replace"))
    text = f"API server, {what}: {status} {told.reason} {told.message}".rstrip()
    if status == 403:
        text += "; the watcher's role needs get, list, watch on pods and nodes, and patch on its own pod"
    return Gone(text) if status == 410 else Retry(f"{text}; will be tried again")


def _trust(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise ValueError(f"ca_file {ca_file!r} cannot be used: {error.strerror or error}") from error


class Watch:
    """An open watch: `line` gives what came, in order."""

    def __init__(self, connection: socket.socket, response: http.client.HTTPResponse) -> None:
        self._socket = connection
        self._response = response
        self._lines: queue.Queue[bytes | Ended] = queue.Queue(LINES_AHEAD)
        self._closed = threading.Event()
        threading.Thread(target=self._read, name="watch", daemon=True).start()

    def line(self, wait_s: float) -> bytes | None:
        """The next line, None where none came within `wait_s`; Ended where there will be no more."""
        try:
            line = self._lines.get(timeout=wait_s) if wait_s > 0 else self._lines.get_nowait()
        except queue.Empty:
            return None
        if isinstance(line, Ended):
            raise line
        return line

    def close(self) -> None:
        """Ends the watch and its thread."""
        self._closed.set()
        with contextlib.suppress(OSError):  # the server may have ended it already
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        end = Ended("watch ended by the server")
        try:
            for line in self._response:
                if not line.endswith(b"\n"):
                    end = Ended("watch broken in the middle of a line")
                    break
                if not self._put(line):
                    break
        except (OSError, http.client.HTTPException) as error:
            end = Ended(f"watch broken: {error or type(error).__name__}")
        self._put(end)
        self._response.close()
        self._socket.close()

    def _put(self, line: bytes | Ended) -> bool:
        while not self._closed.is_set():
            try:
                self._lines.put(line, timeout=1.0)
            except queue.Full:
                continue
            return True
        return False


class Api:
    """The API server; one kept connection for single calls, one more for each watch."""

    def __init__(self, access: Access) -> None:
        parts = urlsplit(access.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"api_url {access.url!r}: expected http(s)://host:port")
        self._access = access
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = _trust(access.ca_file) if parts.scheme == "https" else None
        self._kept: http.client.HTTPConnection | None = None

    def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """Body of a GET; Retry or Gone."""
        return self._call("GET", f"{path}?{urlencode(query)}", None)

    def merge_patch(self, path: str, patch: object) -> bytes:
        """Body of the patched object; Retry."""
        return self._call("PATCH", path, msgspec.json.encode(patch))

    def watch(self, path: str, query: Mapping[str, str]) -> Watch:
        """An open watch; Retry or Gone."""
        target = f"{path}?{urlencode({**query, 'watch': '1'})}"
        connection = self._connect(SILENCE_S)
        try:
            connection.request("GET", self._prefix + target, headers=self._headers(None))
            opened = connection.sock
            response = connection.getresponse()
            if response.status == 200:
                return Watch(opened, response)
            raise failure(response.status, response.read(), f"watch {target}")
        except (OSError, http.client.HTTPException) as error:
            raise self._away(f"watch {target}", error) from error

    def _call(self, method: str, target: str, body: bytes | None) -> bytes:
        fresh = self._kept is None
        try:
            status, answer = self._exchange(method, target, body)
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            if fresh:
                raise self._away(f"{method} {target}", error) from error
            # A kept connection that the server closed meanwhile says nothing about the server: once more, anew.
            return self._call(method, target, body)
        if status >= 300:
            raise failure(status, answer, f"{method} {target}")
        return answer

    def _exchange(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        self._kept = self._kept or self._connect(ANSWER_TIMEOUT_S)
        self._kept.request(method, self._prefix + target, body=body, headers=self._headers(body))
        response = self._kept.getresponse()
        return response.status, response.read()

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "gpumeter-watcher"}
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH
        if self._access.token_file:
            headers["Authorization"] = "Bearer " + Path(self._access.token_file).read_text().strip()
        return headers

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _away(self, what: str, error: Exception) -> Retry:
        return Retry(f"API server {self._access.url}, {what}: {error or type(error).__name__}; will be tried again")
