import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.core.carry import Progress
from stream_jobs.errors import Stop
from stream_jobs.progress import (
    MAX_METADATA_BYTES,
    VERSION,
    Pointer,
    decode_body,
    decode_pointer,
    digest,
    encode_body,
    encode_pointer,
    join,
    split,
)

PROGRESS = Progress({"gpu-samples": 7, "pod-mappings": 3, "pod-events": 0}, b"\x00carry")


@given(st.binary(max_size=200), st.integers(1, 50))
def test_chunks_join_to_body(body: bytes, size: int) -> None:
    """join(split(body)) is the body, and no chunk is larger than asked."""
    chunks = split(body, size)
    assert join(chunks) == body
    assert all(len(chunk) <= size for chunk in chunks)


def test_progress_round_trips() -> None:
    """decode(encode(progress)) is the progress."""
    body = encode_body(PROGRESS)
    assert decode_body(body, Pointer(1, "w", 0, [5], digest(body))) == PROGRESS


def test_torn_progress_stops() -> None:
    """A body that is not the one the commit names stops the worker."""
    body = encode_body(PROGRESS)
    with pytest.raises(Stop, match="the commit says"):
        decode_body(body[:-1], Pointer(1, "w", 0, [5], digest(body)))


def test_progress_of_another_version_stops() -> None:
    """A record that an older or newer worker wrote is not read as if it were this one's; the end says what to do."""
    body = msgspec.msgpack.encode({"version": VERSION + 1, "offsets": {}, "carry": b""})
    with pytest.raises(Stop, match=r"version 3, this worker knows 2.*run the version that wrote it"):
        decode_body(body, Pointer(1, "w", 0, [5], digest(body)))


def test_pointer_round_trips_with_trailing_nul() -> None:
    """A pointer survives as commit metadata, which ends with a NUL."""
    pointer = Pointer(1, "w", 1, [5, 6], "abc")
    text = encode_pointer(pointer)
    assert text.endswith("\0")
    assert decode_pointer(text) == pointer


def test_foreign_commit_stops() -> None:
    """A commit that some tool made, without a pointer, stops the worker and says what can be done."""
    for metadata in ("", "reset by hand", '{"v": 1}'):
        with pytest.raises(Stop, match="Delete the consumer group"):
            decode_pointer(metadata)


def test_pointer_too_long_for_kafka_stops() -> None:
    """More chunks than the metadata of a commit can name stop the worker before it commits."""
    with pytest.raises(Stop, match=str(MAX_METADATA_BYTES)):
        encode_pointer(Pointer(1, "w", 0, list(range(10**9, 10**9 + 1000)), "abc"))
