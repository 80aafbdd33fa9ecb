"""The clock record: "now is T", written to every partition of each input topic every 5 s.

On pod-events it also means "every pod event up to T is out". With a key it is signed, so that a sender without the
key (a node's collector) cannot move time. Tested in tests/unit/schemas/test_clock.py.
"""

import hashlib
import hmac

import msgspec

from .limits import Name, Number

CLOCK_PERIOD_US = 5_000_000


class ClockRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Now, in microseconds, for (cluster, topic, partition); `override` marks one that a worker wrote itself."""

    cluster: Name
    now_us: Number
    override: bool = False
    signature: str = ""


def _signature(key: bytes, topic: str, partition: int, record: ClockRecord) -> str:
    text = f"{topic}/{partition}/{record.cluster}/{record.now_us}/{int(record.override)}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def encode_clock(record: ClockRecord, key: bytes, topic: str, partition: int) -> bytes:
    """JSON of the record, signed for its topic and partition where there is a key."""
    signed = msgspec.structs.replace(record, signature=_signature(key, topic, partition, record)) if key else record
    return msgspec.json.encode(signed)


def decode_clock(payload: bytes, key: bytes, topic: str, partition: int) -> ClockRecord:
    """The record; ValueError where the JSON is wrong or, with a key, the signature does not match."""
    record = msgspec.json.decode(payload, type=ClockRecord)
    if key and not hmac.compare_digest(
        record.signature.encode(errors="replace"), _signature(key, topic, partition, record).encode()
    ):
        where = f"on {topic}/{partition}"
        raise ValueError(f"clock record of cluster {record.cluster!r} at {record.now_us} {where}: wrong signature")
    return record
