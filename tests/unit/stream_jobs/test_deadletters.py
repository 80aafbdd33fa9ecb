from schemas.deadletters import decode_dead_letter
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import Refused
from stream_jobs.deadletters import letter_of

RECORD = LogRecord(5, 6_000, [("record", b"\xff"), ("cluster", b"c")], b"\0payload")
REFUSED = Refused("gpu-samples", 5, "decode", "device rows: not an Arrow IPC stream", RECORD)


def test_letter_names_origin_and_keeps_bytes() -> None:
    """A letter has the refused message's topic, partition, offset, headers and payload, and why it was refused."""
    message = letter_of(REFUSED, 3)
    letter = decode_dead_letter(message.payload or b"")
    assert (letter.topic, letter.partition, letter.offset, letter.append_us) == ("gpu-samples", 3, 5, 6_000)
    assert (letter.headers, letter.payload) == (RECORD.headers, RECORD.payload)
    assert (letter.reason, letter.detail) == (REFUSED.reason, REFUSED.detail)
    assert message.key == b"gpu-samples/3/5"


def test_letter_is_equal_on_replay() -> None:
    """The letter of a message is the same bytes each time."""
    assert letter_of(REFUSED, 3) == letter_of(REFUSED, 3)
