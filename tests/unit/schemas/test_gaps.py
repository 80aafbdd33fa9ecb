"""The gap record."""

import pytest

from schemas.gaps import Gap, decode_gap, encode_gap

GAP = Gap(epoch_us=1, first_seq=3, last_seq=9, start_us=10, end_us=20, reason="dropped")


def test_gap_is_what_was_written() -> None:
    """Decoding gives what was encoded."""
    assert decode_gap(encode_gap(GAP)) == GAP


@pytest.mark.parametrize("payload", [b'{"epoch_us":1}', b"\xff", encode_gap(GAP)[:-1]])
def test_gap_that_is_torn_is_refused(payload: bytes) -> None:
    """A payload that is no gap is a ValueError."""
    with pytest.raises(ValueError, match=r"\S"):
        decode_gap(payload)


@pytest.mark.parametrize("field", ['"last_seq":2', '"end_us":9'])
def test_gap_that_ends_before_it_starts_is_refused(field: str) -> None:
    """Numbers and times that run backwards are a ValueError, lest a window be looked for that is not there."""
    name = field.split(":")[0]
    text = encode_gap(GAP).decode().replace(f"{name}:{9 if 'seq' in name else 20}", field)
    with pytest.raises(ValueError, match="ends before it starts"):
        decode_gap(text.encode())
