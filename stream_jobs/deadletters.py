"""Makes the dead letter of a refused record.

Pure; publishing is publish.py's. Law: the letter depends on the refused message alone, so a replay's copy is equal
(tests/unit/stream_jobs/test_deadletters.py).
"""

from schemas.deadletters import DeadLetterRecord, encode_dead_letter
from schemas.headers import DEAD_LETTER, HeaderError, Headers, decode_headers, encode_headers
from schemas.names import DEAD_LETTERS

from .core.meter import Refused
from .publish import Outgoing


def letter_of(refused: Refused, partition: int) -> Outgoing:
    """The message for dead-letters: reason, detail, origin, headers and payload of a refused record."""
    record = refused.record
    letter = DeadLetterRecord(
        reason=refused.reason,
        detail=refused.detail,
        topic=refused.topic,
        partition=partition,
        offset=refused.offset,
        append_us=record.append_us,
        record=next((v.decode(errors="replace") for k, v in record.headers if k == "record"), ""),
        headers=record.headers,
        payload=record.payload,
    )
    key = f"{refused.topic}/{partition}/{refused.offset}".encode()
    headers = Headers(record=DEAD_LETTER, cluster=_cluster(record.headers))
    return Outgoing(DEAD_LETTERS, None, key, encode_headers(headers), encode_dead_letter(letter))


def _cluster(raw: list[tuple[str, bytes]]) -> str:
    try:
        return decode_headers(raw).cluster
    except HeaderError:
        return ""
