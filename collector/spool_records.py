"""How a message lies in a file of the spool: a frame with two checksums. Knows no directory and no order.

A frame is magic, two lengths, a checksum over the lengths and the head, a checksum over the payload, head, payload.
So a flipped bit in a payload costs that message alone and it is known which; after an unreadable head the next frame
is found by its magic. Law: whatever bytes are changed or cut off, what is read is what was written or nothing
(tests/property/test_spool.py).
"""

import os
import struct
from binascii import crc32
from typing import NamedTuple

import msgspec

from schemas.headers import Headers

RECORD, SEGMENT = b"\xa6GPR", b"\xa6GPS"
_FRAME = struct.Struct(">4sIIII")
HEAD_LIMIT, PAYLOAD_LIMIT = 1 << 20, 1 << 27

Stream = tuple[str, str, int]
"""(topic, boot id, epoch): numbers count within it."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """How far a stream is: its message's headers, when it was made, and when the stream's first one was."""

    topic: str
    headers: Headers
    at_us: int
    began_us: int

    @property
    def stream(self) -> Stream:
        """The stream it belongs to."""
        return self.topic, self.headers.boot_id, self.headers.epoch_us

    @property
    def seq(self) -> int:
        """Its number in the stream."""
        return self.headers.seq


def numbered(mark: Mark, seq: int) -> Mark:
    """The mark with another number."""
    return msgspec.structs.replace(mark, headers=msgspec.structs.replace(mark.headers, seq=seq))


class Frame(NamedTuple):
    """What stands at a place of a file: a message, or the marks that a file begins with; `end` is where it ends."""

    end: int
    mark: Mark | None = None
    payload: bytes | None = None
    """None: damaged or cut off, though `mark` says which message it was."""
    marks: list[Mark] | None = None


_head = msgspec.msgpack.Encoder()
_mark_of = msgspec.msgpack.Decoder(Mark)
_marks_of = msgspec.msgpack.Decoder(list[Mark])


def encode_message(mark: Mark, payload: bytes) -> bytes:
    """A message as a frame."""
    return _frame(RECORD, _head.encode(mark), payload)


def encode_marks(marks: list[Mark]) -> bytes:
    """The frame that a file begins with: the last message of every stream before it."""
    return _frame(SEGMENT, _head.encode(marks), b"")


def read_frame(fd: int, at: int, size: int) -> Frame:
    """The frame at a place below `size`; one that cannot be read at all ends where the next one may begin."""
    fixed = os.pread(fd, _FRAME.size, at)
    if len(fixed) == _FRAME.size:
        magic, head_bytes, payload_bytes, head_sum, payload_sum = _FRAME.unpack(fixed)
        if magic in (RECORD, SEGMENT) and head_bytes <= HEAD_LIMIT and payload_bytes <= PAYLOAD_LIMIT:
            body = at + _FRAME.size
            head = os.pread(fd, head_bytes, body)
            end = body + head_bytes + payload_bytes
            content = _content(magic, head) if crc32(fixed[:12] + fixed[16:] + head) == head_sum else None
            if isinstance(content, list):
                return Frame(end, marks=content)
            if content is not None:
                payload = os.pread(fd, payload_bytes, body + head_bytes)
                whole = len(payload) == payload_bytes and crc32(payload) == payload_sum
                return Frame(min(end, size), content, payload if whole else None)
    return Frame(_next_magic(fd, at + 1, size))


def _frame(magic: bytes, head: bytes, payload: bytes) -> bytes:
    lengths = magic + struct.pack(">II", len(head), len(payload))
    payload_sum = struct.pack(">I", crc32(payload))
    head_sum = struct.pack(">I", crc32(lengths + payload_sum + head))
    return lengths + head_sum + payload_sum + head + payload


def _content(magic: bytes, head: bytes) -> Mark | list[Mark] | None:
    """What a whole head says; None where another version wrote it."""
    try:
        return _marks_of.decode(head) if magic == SEGMENT else _mark_of.decode(head)
    except msgspec.MsgspecError:
        return None


def _next_magic(fd: int, at: int, size: int) -> int:
    found = os.pread(fd, max(size - at, 0), at).find(RECORD)
    return size if found < 0 else at + found
