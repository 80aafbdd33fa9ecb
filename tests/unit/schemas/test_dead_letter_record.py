from schemas.deadletters import MAX_PAYLOAD_BYTES, DeadLetterRecord, decode_dead_letter, encode_dead_letter

LETTER = DeadLetterRecord(
    reason="decode",
    detail="what",
    topic="t",
    partition=1,
    offset=2,
    append_us=3,
    headers=[("h", b"\xff")],
    payload=b"\0x",
)


def test_letter_round_trips() -> None:
    """decode(encode(letter)) is the letter, bytes that are no text included, with the payload's size."""
    decoded = decode_dead_letter(encode_dead_letter(LETTER))
    assert (decoded.headers, decoded.payload, decoded.payload_bytes) == (LETTER.headers, LETTER.payload, 2)


def test_large_payload_is_cut_and_says_so() -> None:
    """A payload too large for a message is cut, and its true size is told."""
    large = DeadLetterRecord(
        reason="r", detail="d", topic="t", partition=0, offset=0, append_us=0, payload=b"x" * (MAX_PAYLOAD_BYTES + 1)
    )
    encoded = encode_dead_letter(large)
    decoded = decode_dead_letter(encoded)
    assert len(encoded) < 1_000_000
    assert (len(decoded.payload), decoded.payload_bytes) == (MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1)


def test_letter_of_the_worst_message_fits_into_kafka() -> None:
    """Headers, words and payload of any length and content give a letter below 1 MB."""
    worst = DeadLetterRecord(
        reason="r", detail="\x01" * 900_000, topic="t", partition=0, offset=0, append_us=0, record="\x01" * 900_000,
        headers=[("\x01" * 10_000, b"\xff" * 10_000)] * 90, payload=b"x" * 1_000_000,
    )  # fmt: skip
    assert len(encode_dead_letter(worst)) < 900_000
