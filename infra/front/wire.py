"""Bytes on the wire of the front: request bodies (chunked, compressed) and answers' compression.

Pure over streams; the only importer of cramjam here. Tested in tests/unit/infra/front/test_wire.py.
"""

from collections.abc import Callable
from typing import Protocol

import cramjam

MAX_BODY_BYTES = 1 << 30


class ByteStream(Protocol):
    """What is read of a connection."""

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer at the end."""

    def readline(self, size: int, /) -> bytes:
        """A line, of `size` bytes at most."""


_OPEN: dict[str, Callable[[bytes], bytes]] = {
    "lz4": lambda body: bytes(cramjam.lz4.decompress(body)),
    "zstd": lambda body: bytes(cramjam.zstd.decompress(body)),
    "gzip": lambda body: bytes(cramjam.gzip.decompress(body)),
    "deflate": lambda body: bytes(cramjam.zlib.decompress(body)),
}
_PACK: dict[str, Callable[[bytes], bytes]] = {
    "lz4": lambda body: bytes(cramjam.lz4.compress(body)),
    "zstd": lambda body: bytes(cramjam.zstd.compress(body)),
    "gzip": lambda body: bytes(cramjam.gzip.compress(body)),
}


class WireError(ValueError):
    """The bytes of a request cannot be read."""


def read_body(stream: ByteStream, length: str | None, transfer: str | None, encoding: str | None) -> bytes:
    """The request's body, unchunked and decompressed; WireError where it is too long, broken or strangely packed."""
    body = _chunks(stream) if "chunked" in (transfer or "").lower() else _exactly(stream, _number(length or "0", 10))
    encoding = (encoding or "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding not in _OPEN:
        raise WireError(f"content encoding {encoding!r} is not supported; use one of {', '.join(_OPEN)}")
    try:
        return _OPEN[encoding](body)
    except (cramjam.DecompressionError, OSError) as error:
        raise WireError(f"the body is not {encoding}: {error}") from error


def pack(body: bytes, accepted: str | None) -> tuple[bytes, str | None]:
    """The body in the first encoding of Accept-Encoding that we have, and that encoding's name."""
    for offer in (accepted or "").split(","):
        name = offer.partition(";")[0].strip().lower()
        if name in _PACK:
            return _PACK[name](body), name
    return body, None


def _chunks(stream: ByteStream) -> bytes:
    parts, total = [], 0
    while size := _number(stream.readline(100).decode("ascii", "replace").partition(";")[0], 16):
        total += size
        if total > MAX_BODY_BYTES:
            raise WireError(f"the body is longer than {MAX_BODY_BYTES} bytes")
        parts.append(_exactly(stream, size))
        stream.readline(100)
    while stream.readline(1000).strip():
        pass
    return b"".join(parts)


def _exactly(stream: ByteStream, size: int) -> bytes:
    if size > MAX_BODY_BYTES:
        raise WireError(f"the body is longer than {MAX_BODY_BYTES} bytes")
    body = stream.read(size)
    if len(body) != size:
        raise WireError(f"the body ended after {len(body)} of {size} bytes")
    return body


def _number(text: str, base: int) -> int:
    try:
        number = int(text.strip(), base)
    except ValueError as error:
        raise WireError(f"{text!r} is not a length") from error
    if number < 0:
        raise WireError(f"{text!r} is not a length")
    return number
