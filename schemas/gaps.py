"""The gap record, on gpu-samples and pod-mappings: what a collector's spool had to drop. JSON.

It says of one sender (boot and epoch in the headers) and topic: of the numbers `first_seq` to `last_seq`, what has not
arrived never will. So it may be told twice, or of numbers that did arrive, and nothing is wrong. It stands where the
messages would have stood, with the last lost number as its own. Tested in tests/unit/schemas/test_gaps.py.
"""

import msgspec

from .limits import Name, Number


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that are lost, and the event time from the last message before them to the last of them."""

    epoch_us: Number
    first_seq: Number
    last_seq: Number
    start_us: Number
    end_us: Number
    reason: Name = ""
    """For people: `dropped` (no room, or not readable any more), `too_large` (no broker takes it)."""


def encode_gap(gap: Gap) -> bytes:
    """JSON of a gap."""
    return msgspec.json.encode(gap)


def decode_gap(payload: bytes) -> Gap:
    """The gap; ValueError names the place and the fault, also where an end lies before its start."""
    gap = msgspec.json.decode(payload, type=Gap)
    if gap.last_seq < gap.first_seq or gap.end_us < gap.start_us:
        raise ValueError(f"gap {gap}: it ends before it starts")
    return gap
