"""Clock records: only who has the key moves time, and only where the record was meant for."""

import msgspec
import pytest

from schemas.clock import ClockRecord, decode_clock, encode_clock
from schemas.names import GPU_SAMPLES, POD_EVENTS

RECORD = ClockRecord(cluster="c", now_us=1_800_000_000_000_000)
KEY = b"key"


def test_signed_clock_round_trips() -> None:
    """What was signed for a partition reads there as it was written, but for its signature."""
    read = decode_clock(encode_clock(RECORD, KEY, GPU_SAMPLES, 3), KEY, GPU_SAMPLES, 3)
    assert msgspec.structs.replace(read, signature="") == RECORD
    assert decode_clock(encode_clock(RECORD, b"", GPU_SAMPLES, 3), b"", GPU_SAMPLES, 3) == RECORD


@pytest.mark.parametrize(
    ("key", "topic", "partition"), [(b"x", GPU_SAMPLES, 3), (KEY, POD_EVENTS, 3), (KEY, GPU_SAMPLES, 4)]
)
def test_clock_counts_only_where_it_was_signed_for(key: bytes, topic: str, partition: int) -> None:
    """Another key, topic or partition is refused, so that no record can be copied to where it was not meant."""
    with pytest.raises(ValueError, match="wrong signature"):
        decode_clock(encode_clock(RECORD, KEY, GPU_SAMPLES, 3), key, topic, partition)


@pytest.mark.parametrize(
    "change",
    [
        {"now_us": 1},
        {"cluster": "d"},
        {"override": True},
        {"signature": ""},
        {"signature": "é"},
    ],
)
def test_clock_that_was_changed_is_refused(change: dict[str, object]) -> None:
    """Each field is under the signature; a record without one does not count where there is a key."""
    signed = msgspec.json.decode(encode_clock(RECORD, KEY, GPU_SAMPLES, 3))
    with pytest.raises(ValueError, match="wrong signature"):
        decode_clock(msgspec.json.encode(signed | change), KEY, GPU_SAMPLES, 3)
