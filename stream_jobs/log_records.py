"""Messages as confluent-kafka gives them, as records of the log: also those whose headers it cannot give.

Such a message goes on through Faust with its odd header names replaced; read again it must be the same record, so its
headers are then asked for the way Faust gets them (odd_headers.py). Law: each record reads as it did the first time
(tests/integration/test_rereader.py).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from schemas.headers import given_headers

from .core.contents import LogRecord
from .odd_headers import read_headers

Given = Any
"""A message of confluent-kafka."""


def records_of(messages: Sequence[Given], bootstrap_servers: str) -> list[LogRecord]:
    """The records of messages without an error, in their order; Retry where the broker goes away."""
    headers = [given_headers(message) for message in messages]
    odd: dict[tuple[str, int], list[int]] = defaultdict(list)
    for message, given in zip(messages, headers, strict=True):
        if given is None:
            odd[_place(message)].append(int(message.offset() or 0))
    asked = {place: read_headers(bootstrap_servers, *place, offsets) for place, offsets in odd.items()}
    return [
        LogRecord(
            offset := int(message.offset() or 0),
            message.timestamp()[1] * 1000,
            asked[_place(message)][offset] if given is None else given,
            _bytes(message.value()),
        )
        for message, given in zip(messages, headers, strict=True)
    ]


def _place(message: Given) -> tuple[str, int]:
    return message.topic() or "", int(message.partition() or 0)


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"" if value is None else str(value).encode()
