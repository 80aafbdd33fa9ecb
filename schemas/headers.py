"""Headers of every message: what it is, from whom, and its place in the sender's sequence.

A resend is the same message with the same (boot, epoch, sequence); so (node, boot, epoch, sequence) is the identity
by which a duplicate is known. Values are ASCII text, so any Kafka tool shows them.
"""

from collections.abc import Iterable
from operator import methodcaller
from typing import Any

import msgspec

from .limits import Name, Number

READING = "reading"
SNAPSHOT = "snapshot"
GAP = "gap"
POD_EVENT = "pod"
NODE_EVENT = "node"
CLOCK = "clock"
USAGE = "usage"
LIVE = "live"
DEAD_LETTER = "dead-letter"
PROGRESS = "progress"
RULE = "rule"

_NEWEST = {READING: 2, USAGE: 2, LIVE: 2}
"""Newest version of a record that ever changed; every other is at its first."""


def newest_version(record: str) -> int:
    """The version in which a kind of record is written today; all older ones can still be read."""
    return _NEWEST.get(record, 1)


class HeaderError(ValueError):
    """A message's headers lack a field or hold a value that cannot be read; names the field and the value."""


class Headers(msgspec.Struct, frozen=True, kw_only=True):
    """Headers of one message; `epoch_us` is the boot-time clock at the sender's start, `seq` counts per topic."""

    record: Name
    version: Number = 0
    """0 is written as the newest version of the record."""
    cluster: Name
    node: Name = ""
    boot_id: Name = ""
    epoch_us: Number = 0
    seq: Number = 0
    complete_to_us: Number = 0
    """Readings only: every later reading of this epoch starts at or after this time."""


_NAMES = frozenset(Headers.__struct_fields__)


def encode_headers(headers: Headers) -> list[tuple[str, bytes]]:
    """Headers as Kafka takes them."""
    values = {name: getattr(headers, name) for name in Headers.__struct_fields__}
    values["version"] = headers.version or newest_version(headers.record)
    return [(name, str(value).encode()) for name, value in values.items()]


def decode_headers(raw: Iterable[tuple[str, bytes | None]] | None) -> Headers:
    """Headers of a message; HeaderError names what is missing or unreadable."""
    text = {name: value.decode("ascii", "replace") for name, value in raw or () if name in _NAMES and value is not None}
    try:
        return msgspec.convert(text, Headers, strict=False)
    except msgspec.ValidationError as error:
        raise HeaderError(f"message headers {text!r}: {error}") from error


_headers = methodcaller("headers")
"""Called so, Python looks whether an exception was left behind. A call of `message.headers()` that it has made faster,
after some, does not: it gives a broken list, and the process ends by SIGSEGV or by an error that rises somewhere else.
"""


def given_headers(message: Any) -> list[tuple[str, bytes]] | None:
    """Headers of a message of confluent-kafka; None where it cannot give them, since a name among them is not UTF-8.

    Tested in tests/integration/test_rereader.py.
    """
    try:
        given = _headers(message) or ()
    except (SystemError, UnicodeDecodeError):
        return None
    return [(name, value.encode() if isinstance(value, str) else value or b"") for name, value in given]
