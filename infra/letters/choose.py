"""Which letters, how many of which kind, and which can be tried again. Pure.

Law: a letter is sent again only where the original is whole in it (tests/unit/infra/test_letters.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from infra.broker.letters import StoredLetter
from schemas.deadletters import MAX_HEADER_BYTES, MAX_HEADER_NAME, MAX_HEADERS, DeadLetterRecord
from schemas.headers import CLOCK, HeaderError, decode_headers
from schemas.ids import message_key
from schemas.names import GPU_USAGE, INPUT_TOPICS
from stream_jobs.publish import Outgoing

UNREADABLE = "unreadable"
_TOPICS = (*INPUT_TOPICS, GPU_USAGE)


class Choice(NamedTuple):
    """What letters are wanted; empty: any."""

    reason: str | None = None
    topic: str | None = None
    offsets: frozenset[int] = frozenset()


class Kind(NamedTuple):
    """Letters of one reason and topic; times are those of their own append."""

    reason: str
    topic: str
    letters: int
    first_us: int
    last_us: int
    first_offset: int
    last_offset: int
    detail: str
    """Of the newest."""


def is_chosen(stored: StoredLetter, choice: Choice) -> bool:
    """Whether a letter is wanted."""
    reason, topic = _kind(stored)
    return (
        choice.reason in (None, reason)
        and choice.topic in (None, topic)
        and (not choice.offsets or stored.offset in choice.offsets)
    )


def kinds(letters: Iterable[StoredLetter]) -> list[Kind]:
    """Letters by reason and topic, the most frequent first."""
    found: dict[tuple[str, str], Kind] = {}
    for stored in letters:
        reason, topic = _kind(stored)
        detail = stored.letter.detail if stored.letter else stored.fault
        known = found.get((reason, topic))
        first = known or Kind(reason, topic, 0, stored.append_us, 0, stored.offset, 0, "")
        found[reason, topic] = first._replace(
            letters=first.letters + 1, last_us=stored.append_us, last_offset=stored.offset, detail=detail
        )
    return sorted(found.values(), key=lambda kind: (-kind.letters, kind.reason, kind.topic))


def fault_of(stored: StoredLetter) -> str:
    """Why the original cannot be sent again as it was; empty where it can."""
    letter = stored.letter
    if letter is None:
        return stored.fault
    if letter.topic not in _TOPICS:
        return f"topic {letter.topic!r} is none that is tried again"
    if letter.payload_bytes > len(letter.payload):
        return f"only {len(letter.payload)} of {letter.payload_bytes} bytes of its payload were kept"
    longest = max((len(value) for _, value in letter.headers), default=0)
    names = max((len(name) for name, _ in letter.headers), default=0)
    if len(letter.headers) >= MAX_HEADERS or names >= MAX_HEADER_NAME or longest >= MAX_HEADER_BYTES:
        return "its headers may have been cut"
    return ""


def original(letter: DeadLetterRecord) -> Outgoing:
    """The message as it was: partition, headers and bytes; its key is not kept and made anew from the headers."""
    headers = [(name, value) for name, value in letter.headers]
    return Outgoing(letter.topic, letter.partition, _key(letter), headers, letter.payload)


def _key(letter: DeadLetterRecord) -> bytes:
    try:
        headers = decode_headers(letter.headers)
    except HeaderError:
        return b""
    return headers.cluster.encode() if headers.record == CLOCK else message_key(headers.cluster, headers.node)


def _kind(stored: StoredLetter) -> tuple[str, str]:
    return (stored.letter.reason, stored.letter.topic) if stored.letter else (UNREADABLE, "")
