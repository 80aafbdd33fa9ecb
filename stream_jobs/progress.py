"""Where a worker goes on: the form of a progress record, its chunks and the pointer to it in the commit's metadata.

Pure. The pointer decides which record counts: Kafka fences commits by generation, so a record that a worker wrote after
it lost its partition is never pointed to. Each writer alternates between two slots of keys of its own, so that
compaction never removes the record that counts. Laws: join(split(body)) = body; a torn or foreign body is refused
(tests/unit/stream_jobs/test_progress.py).
"""

import hashlib
from collections.abc import Sequence

import msgspec

from .core.carry import Progress
from .errors import Stop

CHUNK_BYTES = 900_000
"""Below Kafka's default message limit of 1 MB."""
MAX_METADATA_BYTES = 4_096
VERSION = 2


class Body(msgspec.Struct, frozen=True):
    """A progress record whole, before it is cut into chunks."""

    version: int
    offsets: dict[str, int]
    carry: bytes


class Pointer(
    msgspec.Struct,
    frozen=True,
    rename={
        "version": "v",
        "writer": "w",
        "slot": "s",
        "chunks": "c",
        "reached": "r",
        "topics": "t",
        "partitions": "n",
    },
):
    """The commit's metadata: which records of meter-progress are the progress, and what they must hash to.

    `reached` is how far the topics were read when it was made: a worker that goes on has caught up when it is there.
    """

    version: int
    writer: str
    slot: int
    chunks: list[int]
    sha256: str
    reached: dict[str, int] = {}
    topics: dict[str, str] = {}
    """Ids of the input topics, since offsets mean nothing in a topic that was made anew."""
    partitions: int = 0
    """How many there were; 0 where it was not noted."""


def encode_body(progress: Progress) -> bytes:
    """Bytes of a progress, whole."""
    return msgspec.msgpack.encode(Body(VERSION, progress.offsets, progress.carry))


def decode_body(payload: bytes, pointer: Pointer) -> Progress:
    """The progress that a pointer names; Stop where the bytes are others."""
    found = digest(payload)
    if found != pointer.sha256:
        raise Stop(
            f"progress record at offsets {pointer.chunks} has hash {found}, the commit says {pointer.sha256}: "
            "stopped, since figures would not be those of the log; delete the consumer group to read the log anew"
        )
    body = msgspec.msgpack.decode(payload, type=Body)
    if body.version != VERSION:
        raise Stop(
            f"progress record at offsets {pointer.chunks} has version {body.version}, this worker knows {VERSION}: "
            "stopped; run the version that wrote it, or delete the consumer group to read the log anew"
        )
    return Progress(body.offsets, body.carry)


def digest(payload: bytes) -> str:
    """Short SHA-256 of a body."""
    return hashlib.sha256(payload).hexdigest()[:32]


def split(body: bytes, size: int = CHUNK_BYTES) -> list[bytes]:
    """The body in chunks of at most `size` bytes; at least one."""
    return [body[at : at + size] for at in range(0, len(body), size)] or [b""]


def join(chunks: Sequence[bytes]) -> bytes:
    """The body of its chunks."""
    return b"".join(chunks)


def chunk_key(group: str, partition: int, generation: int, writer: str, slot: int, chunk: int) -> bytes:
    """Key of a chunk in meter-progress."""
    return f"{group}/{partition}/{generation}/{writer}/{slot}/{chunk}".encode()


def encode_pointer(pointer: Pointer) -> str:
    """Metadata of a commit; the trailing NUL keeps librdkafka from reading beyond it. Stop where it is too long."""
    text = msgspec.json.encode(pointer).decode() + "\0"
    if len(text) > MAX_METADATA_BYTES:
        raise Stop(
            f"progress in {len(pointer.chunks)} chunks needs {len(text)} bytes of commit metadata, Kafka takes "
            f"{MAX_METADATA_BYTES}; give the worker fewer nodes a partition"
        )
    return text


def decode_pointer(metadata: str) -> Pointer:
    """The pointer in a commit's metadata; Stop where something else committed."""
    try:
        return msgspec.json.decode(metadata.rstrip("\0").encode(), type=Pointer)
    except msgspec.MsgspecError as error:
        raise Stop(
            f"committed offset with metadata {metadata[:80]!r} is not of this worker ({error}); stopped, since "
            "without its progress a window would be counted twice. Delete the consumer group to read the log anew"
        ) from error
