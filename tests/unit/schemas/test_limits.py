import json
from collections.abc import Callable

import msgspec
import pytest

from schemas.clock import decode_clock
from schemas.headers import HeaderError, decode_headers
from schemas.limits import MAX_NUMBER, MAX_TEXT, MAX_UNITS
from schemas.pods import decode_pod
from schemas.snapshots import decode_snapshot

POD = {"uid": "u", "namespace": "n", "name": "p", "node": "x"}
SNAPSHOT = {"mapping_seq": 1, "taken_us": 1, "processes": [], "grants": [], "slots": []}


@pytest.mark.parametrize(
    ("decode", "record"),
    [
        (decode_pod, POD | {"created_us": MAX_NUMBER + 1}),
        (decode_pod, POD | {"name": "p" * (MAX_TEXT + 1)}),
        (decode_pod, POD | {"containers": [{"name": "c", "requests": {"nvidia.com/gpu": MAX_UNITS + 1}}]}),
        (decode_pod, POD | {"containers": [{"name": "c", "requests": {"nvidia.com/gpu": -1}}]}),
        (decode_snapshot, SNAPSHOT | {"mapping_seq": 10**30}),
        (decode_snapshot, SNAPSHOT | {"slots": [{"gpu_uuid": "g", "slots": 1 << 63}]}),
        (lambda payload: decode_clock(payload, b"", "t", 0), {"cluster": "c", "now_us": 1 << 64}),
    ],
)
def test_record_beyond_the_limits_is_refused(decode: Callable[[bytes], object], record: dict) -> None:
    """A number that would leave 64 bits, or a text that would outgrow a message, is refused and not read."""
    with pytest.raises(msgspec.ValidationError):
        decode(json.dumps(record).encode())


@pytest.mark.parametrize("field", [("seq", b"9" * 30), ("epoch_us", b"-" + b"9" * 30), ("node", b"n" * 600)])
def test_headers_beyond_the_limits_are_refused(field: tuple[str, bytes]) -> None:
    """Headers are bounded as records are."""
    with pytest.raises(HeaderError):
        decode_headers([("record", b"reading"), ("cluster", b"c"), field])
