"""What a meter must remember besides the log: the carry as it was at an offset, and what is closed as of now.

A meter that starts from a carry at an offset and reads on gives the rows that an undisturbed one gives
(tests/property/test_crash.py).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from schemas.pods import NodeRecord, PodRecord

from .cuts import Gaps, SequenceSet
from .held import DeviceFacts
from .lives import Life


class SenderCarry(msgspec.Struct):
    """A collector's epoch: sequence numbers seen, as intervals."""

    boot_id: str
    epoch_us: int
    intervals: list[list[int]]


class NodeCarry(msgspec.Struct):
    """A node at an offset of gpu-samples."""

    node: str
    senders: list[SenderCarry]
    lives: list[Life]
    asserting: tuple[str, int] | None
    watermark_us: int | None
    cut_to_us: int
    """First results of windows that start before this are cut."""
    cuts: list[tuple[int, int]]
    """(window start, cut) of windows that are cut and were not closed."""
    device_lists: list[tuple[int, int, Sequence[DeviceFacts]]]
    """(reading time, offset, DeviceFacts of each device); an empty list repeats the one before it."""
    gaps: list[tuple[int, int, int]]
    """(offset, start, end) of the spool gaps that open windows may touch."""
    last_us: int
    """The newest time of its records and of the clocks they came at."""


class HistoryCarry(msgspec.Struct):
    """What is known of a node beyond its open windows, as of now (history.py); columns in the order of its fields."""

    node: str
    low_us: int
    looked_to_us: int
    facts: list[list[int]]
    quiet: list[list[int]]
    pods: list[tuple[int, PodRecord]]
    record: tuple[int, NodeRecord] | None


class ClusterNow(msgspec.Struct):
    """Of a cluster as of now: its clocks, where the readings of each window lie in gpu-samples, its nodes' history."""

    cluster: str
    heard_us: int
    clocks: dict[str, tuple[int | None, list[int], list[int]]]
    """Per topic the newest clock, and times and offsets of the index."""
    ranges: list[tuple[int, int, int]]
    """(window start, first offset, offset after the last)."""
    nodes: list[HistoryCarry]


class ClusterCarry(msgspec.Struct):
    """A cluster's clock of gpu-samples and its nodes at an offset."""

    cluster: str
    heard_us: int
    clock_us: int | None
    gap_ends_us: list[int]
    gap_totals_us: list[int]
    nodes: list[NodeCarry]


class _Carry(msgspec.Struct, kw_only=True):
    """A carry but for its clusters; as of now `closed_to_us` per (cluster, node), and the nodes that are gone."""

    samples_offset: int
    closed_to_us: list[tuple[str, str, int]] = []
    gone: list[tuple[str, str]] = []
    positions: dict[str, int] = {}
    """Where each topic was read to: what is late below that is known."""
    now: list[ClusterNow] = []


class Carry(_Carry, kw_only=True):
    """The carry at `samples_offset`."""

    clusters: list[ClusterCarry]


class PackedCarry(_Carry, kw_only=True):
    """A carry whose clusters are JSON already."""

    clusters: msgspec.Raw


class Checkpoint(NamedTuple):
    """The clusters of a carry, packed: several are kept, and as objects a fleet's take hundreds of MB."""

    samples_offset: int
    packed: bytes

    def carry(self) -> PackedCarry:
        """The carry that it begins."""
        return PackedCarry(samples_offset=self.samples_offset, clusters=msgspec.Raw(_unpack(self.packed)))


def checkpoint(samples_offset: int, clusters: Sequence[ClusterCarry]) -> Checkpoint:
    """A checkpoint of clusters as they are at an offset."""
    return Checkpoint(samples_offset, _pack(clusters))


class Progress(msgspec.Struct):
    """Where to read each topic from after a restart, and the carry to begin with."""

    offsets: dict[str, int]
    carry: bytes


def encode_carry(carry: Carry | PackedCarry) -> bytes:
    """Compressed JSON of a carry, behind its length in 8 bytes."""
    return _pack(carry)


def decode_carry(payload: bytes) -> Carry:
    """The carry; ValueError where it is torn."""
    try:
        plain = _unpack(payload)
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise ValueError(f"carry of {len(payload)} bytes cannot be unpacked: {error}") from error
    return msgspec.json.decode(plain, type=Carry)


def _pack(content: Any) -> bytes:
    plain = msgspec.json.encode(content)
    packed: bytes = pa.compress(plain, codec="zstd", asbytes=True)
    return len(plain).to_bytes(8, "big") + packed


def _unpack(payload: bytes) -> bytes:
    plain: bytes = pa.decompress(payload[8:], int.from_bytes(payload[:8], "big"), codec="zstd", asbytes=True)
    return plain


def gaps_of(carry: ClusterCarry) -> Gaps:
    """The gaps of a carry."""
    return Gaps(list(carry.gap_ends_us), list(carry.gap_totals_us))


def sequences_of(carry: SenderCarry) -> SequenceSet:
    """The sequence set of a carry."""
    return SequenceSet([list(interval) for interval in carry.intervals])
