"""What a meter must remember besides the log: the carry as it was at an offset, and what is closed as of now.

A meter that starts from a carry at an offset and reads on gives the rows that an undisturbed one gives
(tests/property/test_crash.py).
"""

import msgspec

from .cuts import ClockIndex, Gaps, SequenceSet


class SenderCarry(msgspec.Struct):
    """A collector's epoch: sequence numbers seen, as intervals."""

    boot_id: str
    epoch_us: int
    intervals: list[list[int]]


class NodeCarry(msgspec.Struct):
    """A node at an offset of gpu-samples."""

    node: str
    senders: list[SenderCarry]
    boots: list[str]
    asserting: tuple[str, int] | None
    watermark_us: int | None
    cut_to_us: int
    """First results of windows that start before this are cut."""
    cuts: list[tuple[int, int]]
    """(window start, cut) of windows that are cut and were not closed."""
    device_lists: list[tuple[int, int, list[tuple[str, str]]]]
    """(reading time, offset, (uuid, model) of each device); an empty list repeats the one before it."""
    gaps: list[tuple[int, int, int]] = []
    """(offset, start, end) of the spool gaps that open windows may touch."""


class ClusterCarry(msgspec.Struct):
    """A cluster's clock of gpu-samples and its nodes at an offset."""

    cluster: str
    heard_us: int
    clock_times_us: list[int]
    clock_offsets: list[int]
    gap_ends_us: list[int]
    gap_totals_us: list[int]
    nodes: list[NodeCarry]


class Carry(msgspec.Struct):
    """The carry at `samples_offset`; as of now `closed_to_us` per (cluster, node), and the nodes that are gone."""

    samples_offset: int
    clusters: list[ClusterCarry]
    closed_to_us: list[tuple[str, str, int]]
    gone: list[tuple[str, str]] = []


class Progress(msgspec.Struct):
    """Where to read each topic from after a restart, and the carry to begin with."""

    offsets: dict[str, int]
    carry: bytes


def encode_carry(carry: Carry) -> bytes:
    """JSON of a carry."""
    return msgspec.json.encode(carry)


def decode_carry(payload: bytes) -> Carry:
    """The carry; ValueError where it is torn."""
    return msgspec.json.decode(payload, type=Carry)


def clock_of(carry: ClusterCarry) -> ClockIndex:
    """The clock index of a carry."""
    return ClockIndex(list(carry.clock_times_us), list(carry.clock_offsets))


def gaps_of(carry: ClusterCarry) -> Gaps:
    """The gaps of a carry."""
    return Gaps(list(carry.gap_ends_us), list(carry.gap_totals_us))


def sequences_of(carry: SenderCarry) -> SequenceSet:
    """The sequence set of a carry."""
    return SequenceSet([list(interval) for interval in carry.intervals])
