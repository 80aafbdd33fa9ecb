"""One unary gRPC call over a unix socket, with h2 alone: the only importer of h2, small enough for every node.

A connection lives for one call, so a kubelet restart needs no care. Must not know what is asked. Law: a call gives the
whole answer or raises Retry with what, where and why; never a part (tests/contracts/test_podresources.py).
"""

import socket
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from .errors import Retry

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The limit of the kubelet's own client."""
UNIMPLEMENTED = 12
_PREFIX_BYTES = 5
_RECEIVE_BYTES = 256 * 1024


class GrpcError(Retry):
    """The server answered with a gRPC status other than OK."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def unary_call(socket_path: str, method: str, request: bytes, timeout_s: float) -> bytes:
    """Answer to `request` at `method`, `/package.Service/Name`; Retry where there is none within the time."""
    where = f"gRPC {method} on {socket_path}"
    deadline_s = monotonic() + timeout_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(socket_path)
            return _Call(connection, where, deadline_s).run(method, request, timeout_s)
    except TimeoutError as error:
        raise Retry(f"{where}: no answer within {timeout_s:g} s; will be asked again") from error
    except FileNotFoundError as error:
        raise Retry(f"{where}: no such socket; is the kubelet running and its directory mounted?") from error
    except OSError as error:
        raise Retry(f"{where}: {error.strerror or error}; will be asked again") from error
    except h2.exceptions.H2Error as error:
        raise Retry(f"{where}: not HTTP/2 as agreed ({type(error).__name__}: {error})") from error


class _Call:
    """State of one call: what came so far, until the stream ends."""

    def __init__(self, connection: socket.socket, where: str, deadline_s: float) -> None:
        self._socket = connection
        self._where = where
        self._deadline_s = deadline_s
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._ended = False

    def run(self, method: str, request: bytes, timeout_s: float) -> bytes:
        self._send_request(method, request, timeout_s)
        while not self._ended:
            for event in self._http.receive_data(self._receive()):
                self._take(event)
            self._send()
        self._check_status()
        return self._message()

    def _send_request(self, method: str, request: bytes, timeout_s: float) -> None:
        self._http.initiate_connection()
        stream = self._http.get_next_available_stream_id()
        headers: Sequence[tuple[str, str]] = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            ("grpc-timeout", f"{max(1, round(timeout_s * 1000))}m"),
        )
        self._http.send_headers(stream, headers)
        # Room for the largest answer at once; without it an answer above 64 KiB waits for us at every window.
        self._http.increment_flow_control_window(MAX_ANSWER_BYTES)
        self._http.increment_flow_control_window(MAX_ANSWER_BYTES, stream)
        self._http.send_data(stream, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)
        self._send()

    def _send(self) -> None:
        # A server may close its end after the answer; what it sent is still there to be read, so reading decides.
        with suppress(BrokenPipeError):
            self._socket.sendall(self._http.data_to_send())

    def _receive(self) -> bytes:
        left_s = self._deadline_s - monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        try:
            received = self._socket.recv(_RECEIVE_BYTES)
        except ConnectionResetError:
            received = b""
        if not received:
            raise Retry(f"{self._where}: connection closed before the answer was whole; will be asked again")
        return received

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self._headers.update({str(name): str(value) for name, value in event.headers or ()})
            case h2.events.DataReceived():
                self._body += event.data or b""
                if len(self._body) > MAX_ANSWER_BYTES + _PREFIX_BYTES:
                    raise Retry(f"{self._where}: answer is larger than {MAX_ANSWER_BYTES} bytes; refused")
                self._http.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
            case h2.events.StreamEnded():
                self._ended = True
            case h2.events.StreamReset() | h2.events.ConnectionTerminated() if not self._ended:
                name = "stream reset" if isinstance(event, h2.events.StreamReset) else "connection ended (GOAWAY)"
                raise Retry(f"{self._where}: {name} by the server, {event.error_code!r}; will be asked again")

    def _check_status(self) -> None:
        if (http_status := self._headers.get(":status")) != "200":
            raise Retry(f"{self._where}: HTTP status {http_status}, expected 200")
        status = self._headers.get("grpc-status", "")
        if not status.isdecimal():
            raise Retry(f"{self._where}: answer without a gRPC status")
        if status != "0":
            text = unquote(self._headers.get("grpc-message", ""))
            raise GrpcError(f"{self._where}: gRPC status {status} {text}".rstrip(), int(status))

    def _message(self) -> bytes:
        length = int.from_bytes(self._body[1:_PREFIX_BYTES], "big")
        if len(self._body) < _PREFIX_BYTES or self._body[0] != 0 or len(self._body) != length + _PREFIX_BYTES:
            raise Retry(
                f"{self._where}: {len(self._body)} bytes are not one plain message (begin with {self._body[:5].hex()})"
            )
        return bytes(memoryview(self._body)[_PREFIX_BYTES:])
