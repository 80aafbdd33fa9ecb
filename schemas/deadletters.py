"""dead-letters: a record that can never succeed, with its reason and origin. JSON, the payload in base64.

Law: a letter is a pure function of the refused message, so a replay writes the same bytes; decode(encode(x)) = x
(tests/unit/schemas/test_dead_letter_record.py).
"""

import msgspec

MAX_PAYLOAD_BYTES = 512 * 1024
"""A larger payload is cut so that its letter fits into a message; `payload_bytes` tells the true size."""
MAX_DETAIL = 2_000
MAX_HEADERS, MAX_HEADER_NAME, MAX_HEADER_BYTES = 32, 100, 2_000
"""Of a letter: characters of its words, headers, and of each header. What is longer is cut; real ones are far below."""


class DeadLetterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One refused message; identity is (topic, partition, offset)."""

    reason: str
    """One word for counting: headers, version, decode, clock, ..."""
    detail: str
    topic: str
    partition: int
    offset: int
    append_us: int
    record: str = ""
    """What the headers said it was, as far as they could be read."""
    headers: list[tuple[str, bytes]] = []
    payload: bytes = b""
    payload_bytes: int = 0


def encode_dead_letter(letter: DeadLetterRecord) -> bytes:
    """JSON of a letter; whatever is too long in it is cut, so that it fits into a message of 1 MB."""
    cut = msgspec.structs.replace(
        letter,
        detail=letter.detail[:MAX_DETAIL],
        record=letter.record[:MAX_HEADER_NAME],
        headers=[(k[:MAX_HEADER_NAME], v[:MAX_HEADER_BYTES]) for k, v in letter.headers[:MAX_HEADERS]],
        payload=letter.payload[:MAX_PAYLOAD_BYTES],
        payload_bytes=letter.payload_bytes or len(letter.payload),
    )
    return msgspec.json.encode(cut)


def decode_dead_letter(payload: bytes) -> DeadLetterRecord:
    """The letter; ValueError names the place and the fault."""
    return msgspec.json.decode(payload, type=DeadLetterRecord)
