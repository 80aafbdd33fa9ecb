"""Dead letters: which can be tried again, how they are counted and shown."""

import pytest

from infra.broker.letters import StoredLetter
from infra.letters.choose import Choice, fault_of, is_chosen, kinds, original
from infra.letters.payload import decoded, hexdump
from schemas.deadletters import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_PAYLOAD_BYTES,
    DeadLetterRecord,
    decode_dead_letter,
    encode_dead_letter,
)
from schemas.headers import Headers, encode_headers
from schemas.names import DEAD_LETTERS, GPU_SAMPLES, GPU_USAGE, POD_EVENTS
from tests.ledger_rows import payload, pod

HEADERS = encode_headers(Headers(record="reading", cluster="c", node="n", seq=7))


def _stored(offset: int = 0, **given: object) -> StoredLetter:
    """A letter as it comes back from the topic."""
    base = {"reason": "decode", "detail": "d", "topic": GPU_SAMPLES, "partition": 2, "offset": 5, "append_us": 1}
    letter = DeadLetterRecord(**(base | {"headers": HEADERS, "payload": b"\x00bytes"} | given))  # type: ignore[arg-type]
    return StoredLetter(0, offset, 1_000_000 * offset, decode_dead_letter(encode_dead_letter(letter)))


def test_original_is_the_message_as_it_was() -> None:
    """Partition, headers and bytes are those of the refused message, its key is the one its sender used."""
    letter = _stored().letter
    assert letter is not None
    assert original(letter) == (GPU_SAMPLES, 2, b"c/n", HEADERS, b"\x00bytes")
    clock = _stored(headers=encode_headers(Headers(record="clock", cluster="c"))).letter
    assert clock is not None
    assert original(clock).key == b"c"


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"payload": b"x" * (MAX_PAYLOAD_BYTES + 1)}, "bytes of its payload"),
        ({"headers": [("a", b"b")] * (MAX_HEADERS + 1)}, "headers may have been cut"),
        ({"headers": [("a", b"b" * (MAX_HEADER_BYTES + 1))]}, "headers may have been cut"),
        ({"headers": [("a" * 101, b"b")]}, "headers may have been cut"),
        ({"topic": DEAD_LETTERS}, "none that is tried again"),
    ],
)
def test_letter_that_is_not_whole_is_never_sent_again(given: dict[str, object], word: str) -> None:
    """What was cut to fit into a letter would be another message, so it is kept back with the reason."""
    assert word in fault_of(_stored(**given))
    assert fault_of(_stored()) == ""
    assert fault_of(StoredLetter(0, 1, 1, None, "not a dead letter: x")) == "not a dead letter: x"


def test_letters_are_counted_by_reason_and_topic() -> None:
    """Kinds come most frequent first, with first and last offset and time; what is no letter counts as its own."""
    letters = [_stored(0), _stored(1, topic=POD_EVENTS), _stored(2, detail="newest"), StoredLetter(0, 3, 9, None, "no")]
    found = kinds(letters)
    assert [(k.reason, k.topic, k.letters, k.first_offset, k.last_offset) for k in found] == [
        ("decode", GPU_SAMPLES, 2, 0, 2), ("decode", POD_EVENTS, 1, 1, 1), ("unreadable", "", 1, 3, 3),
    ]  # fmt: skip
    assert (found[0].first_us, found[0].last_us, found[0].detail) == (0, 2_000_000, "newest")


def test_choice_takes_reason_topic_and_offsets_together() -> None:
    """A letter is chosen only where everything that was named fits."""
    letter = _stored(4)
    assert is_chosen(letter, Choice())
    assert is_chosen(letter, Choice("decode", GPU_SAMPLES, frozenset({4})))
    for other in (Choice("version"), Choice("decode", POD_EVENTS), Choice(offsets=frozenset({5}))):
        assert not is_chosen(letter, other)


def test_payload_is_shown_by_its_codec_or_as_bytes() -> None:
    """Rows where the topic's codec reads them, JSON where it is JSON, else nothing but the bytes."""
    rows = _stored(topic=GPU_USAGE, payload=payload([pod("a")])).letter
    text = _stored(topic=POD_EVENTS, payload=b'{"a": 1}').letter
    torn = _stored().letter
    assert rows is not None and text is not None and torn is not None
    assert decoded(rows)[0]["pod_name"] == "a"
    assert decoded(text) == {"a": 1}
    assert decoded(torn) is None


def test_hexdump_shows_offset_bytes_and_what_is_left() -> None:
    """Sixteen bytes a line with their text, cut at the bound, and the rest counted."""
    dump = hexdump(bytes(range(60, 80)) + b"more", 20)
    first, second, rest = dump.splitlines()
    assert first.startswith("00000000  3c 3d 3e") and first.endswith("<=>?@ABCDEFGHIJK")
    assert second.startswith("00000010  4c 4d 4e 4f") and second.endswith("LMNO")
    assert rest == "... 4 more bytes"
