"""Bodies of requests as they come over the wire."""

import io

import pytest

from infra.front.wire import WireError, pack, read_body


def test_body_of_known_length_is_read_to_the_byte() -> None:
    """Only the bytes announced are taken; the next request's stay."""
    stream = io.BytesIO(b"SELECT 1NEXT")
    assert read_body(stream, "8", None, None) == b"SELECT 1"
    assert stream.read() == b"NEXT"


def test_chunked_body_is_put_together() -> None:
    """Chunks with extensions and trailers become one body."""
    stream = io.BytesIO(b"4;x=1\r\nSELE\r\n4\r\nCT 1\r\n0\r\nA: b\r\n\r\nNEXT")
    assert read_body(stream, None, "chunked", None) == b"SELECT 1"
    assert stream.read() == b"NEXT"


@pytest.mark.parametrize("name", ["lz4", "zstd", "gzip"])
def test_packed_body_round_trips(name: str) -> None:
    """What pack packs, read_body opens."""
    body, encoding = pack(b"x" * 5000, f"br, {name};q=0.5")
    assert encoding == name
    assert len(body) < 1000
    assert read_body(io.BytesIO(body), str(len(body)), None, name) == b"x" * 5000


def test_unknown_offers_are_not_packed() -> None:
    """Without an encoding in common the body goes as it is."""
    assert pack(b"x", "br, identity") == (b"x", None)
    assert pack(b"x", None) == (b"x", None)


@pytest.mark.parametrize(
    ("raw", "length", "transfer", "encoding"),
    [
        (b"abc", "4", None, None),
        (b"abc", "-1", None, None),
        (b"abc", "x", None, None),
        (b"", str(1 << 40), None, None),
        (b"zz\r\nabc", None, "chunked", None),
        (b"5\r\nabc", None, "chunked", None),
        (b"-5\r\nabc", None, "chunked", None),
        (b"", None, "chunked", None),
        (b"abc", "3", None, "lz4"),
        (b"abc", "3", None, "rot13"),
    ],
)
def test_broken_body_is_refused(raw: bytes, length: str | None, transfer: str | None, encoding: str | None) -> None:
    """A body that is short, endless or not what it says is a WireError, nothing else."""
    with pytest.raises(WireError):
        read_body(io.BytesIO(raw), length, transfer, encoding)
