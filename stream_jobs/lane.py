"""One partition of the three input topics in one generation of the group: its meter and its place in the log.

Owns which offset comes next; knows neither Kafka nor Faust. An offset names one record for ever, so it does not matter
in which generation a message came. Laws: a message below the expected offset is passed over, one above it is a gap and
never fed, unless the log itself has nothing between (tests/unit/stream_jobs/test_lane.py).
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from schemas.names import INPUT_TOPICS

from .core.carry import Progress
from .core.contents import LogRecord
from .core.meter import PartitionMeter, Refused
from .core.settings import MeterSettings, Source
from .lane_counts import LaneCounts
from .progress import Pointer, digest, encode_body


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it came from a topic, with the generation in which it came."""

    topic: str
    partition: int
    generation: int
    record: LogRecord


ReadPart = Callable[[int, str, int, int], tuple[list[LogRecord], int]]
"""Reads the next records of (partition, topic, [from, to)) again, and up to where those are all; LogGoneError where the
log does not have them any more."""


class LogGoneError(Exception):
    """A part of the log was deleted."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The log went on at another offset than expected; the worker finds out why."""

    topic: str
    partition: int
    expected: int
    found: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}: offset {self.found} came where {self.expected} was expected"


@dataclass(slots=True)
class Saved:
    """A progress on its way: its body, and the slot of keys it is written to."""

    progress: Progress
    body: bytes
    slot: int


@dataclass(slots=True)
class Lane:
    """State of a partition; `writer` makes its progress keys its own."""

    partition: int
    generation: int
    meter: PartitionMeter
    expected: dict[str, int]
    writer: str = field(default_factory=lambda: secrets.token_hex(6))
    slot: int = 0
    saved_sha256: str = ""
    saved_at_s: float = 0.0
    opened_at_s: float = 0.0
    resumed: bool = False
    """Whether it goes on from a progress."""
    unfinished: bool = False
    """Whether time was up with revisions still to be made; they must not wait for the next message."""
    committed: bool = False
    """Whether a progress of this lane was committed."""
    gaps: dict[str, Gap] = field(default_factory=dict)
    """Topics whose last message was too far ahead; such messages are not fed."""
    holes: set[Gap] = field(default_factory=set)
    """Gaps that are in the log itself, e.g. where a producer ended a transaction; the lane goes on behind them."""
    reached: dict[str, int] = field(default_factory=dict)
    """Where the partition was when the progress was saved that this lane goes on from; it reads again up to there."""
    silent_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(INPUT_TOPICS, 0.0))
    """For how long nothing was fed from a topic, as far as the watchdog looked."""
    fed: set[str] = field(default_factory=set)
    """Topics that were fed since the watchdog looked."""
    rereading: bool = False
    """Whether it is read again past Faust, whose topics are paused meanwhile (rereader.py)."""
    paused: set[str] = field(default_factory=set)
    """Topics that are not read for now (restraint.py)."""
    topics: dict[str, str] = field(default_factory=dict)
    """Ids of the input topics."""
    partitions: int = 0
    """How many partitions they have."""
    held_bytes: int = 0
    """Size of the readings that it holds, as last looked at."""
    counts: LaneCounts = field(default_factory=LaneCounts)
    begun: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.begun = dict(self.expected)

    def jumps(self, messages: Sequence[Received]) -> list[Gap]:
        """Where the messages' offsets do not follow, each either a hole of the log or something yet to come."""
        found: list[Gap] = []
        at = dict(self.expected)
        for message in sorted(messages, key=_by_place):
            topic, offset = message.topic, message.record.offset
            if offset > at[topic]:
                found.append(Gap(topic, self.partition, at[topic], offset))
            at[topic] = max(at[topic], offset + 1)
        return found

    def feed(self, messages: Sequence[Received]) -> list[Refused]:
        """Gives the meter what comes next in each topic; what is too far ahead is left out and noted as a gap."""
        refused: list[Refused] = []
        for topic, run in groupby(sorted(messages, key=_by_place), key=attrgetter("topic")):
            records = [m.record for m in run if self._is_next(m)]
            refused += self.meter.feed(topic, records)
            if records:
                self.counts.append_us[topic] = records[-1].append_us
                self.counts.reread += sum(record.offset < self.reached.get(topic, 0) for record in records)
        self.counts.note_refused(refused)
        return refused

    def closed(self) -> Iterator[pa.Table]:
        """Tables of all windows that can be closed now."""
        while (table := self.meter.close_ready()) is not None:
            self.counts.note_closed(table)
            yield table

    def revised(self, read: ReadPart, until: Callable[[], bool]) -> Iterator[pa.Table]:
        """Tables of the revisions that can be made now, step by step until time is up; `read` gets parts of the log.

        A pass goes on where it was at the next call. One whose part of the log is gone is given up, and counted.
        """
        self.unfinished = False
        repairs = self.meter.repairs
        while repairs.is_due():
            if until():
                self.unfinished = True
                return
            part = repairs.wanted()
            if part is None:
                yield repairs.made()
                continue
            try:
                records, to = read(self.partition, *part)
            except LogGoneError as gone:
                self.counts.gone.append(str(gone))
                repairs.abandon()
                continue
            repairs.take(records, to)

    def reread_left(self) -> int:
        """Records to read again until the place where the partition was."""
        return sum(max(0, offset - self.expected[topic]) for topic, offset in self.reached.items())

    def unsaved(self) -> Saved | None:
        """The progress of now, if it differs from the one saved last and anything was taken since the lane opened."""
        progress = self.meter.progress() if self.expected != self.begun else None
        if progress is None:
            return None
        body = encode_body(progress)
        return None if digest(body) == self.saved_sha256 else Saved(progress, body, self.slot)

    def note_saved(self, saved: Saved, chunks: list[int]) -> Pointer:
        """Pointer to a progress that lies in meter-progress at `chunks`; the next one goes to the other slot."""
        sha256 = digest(saved.body)
        self.slot, self.saved_sha256 = 1 - saved.slot, sha256
        reached = {topic: max(offset, self.reached.get(topic, 0)) for topic, offset in self.expected.items()}
        return Pointer(1, self.writer, saved.slot, chunks, sha256, reached, self.topics, self.partitions)

    def _is_next(self, message: Received) -> bool:
        offset, expected = message.record.offset, self.expected[message.topic]
        if offset < expected:
            self.counts.skipped += 1
            return False
        if offset > expected:
            gap = Gap(message.topic, self.partition, expected, offset)
            if gap not in self.holes:
                self.gaps[message.topic] = gap
                return False
            self.holes.remove(gap)
        self.gaps.pop(message.topic, None)
        self.expected[message.topic] = offset + 1
        self.fed.add(message.topic)
        return True


def open_lane(
    partition: int,
    generation: int,
    settings: MeterSettings,
    topic_id: str,
    begin: Progress | dict[str, int],
    reached: dict[str, int] | None = None,
    partitions: int = 0,
) -> Lane:
    """A lane that goes on from a progress, or begins at the given offset of each topic: where its log starts.

    `reached` is where the partition was when that progress was saved; of 0 partitions every node belongs on this one.
    """
    meter = PartitionMeter(settings, Source(partition, topic_id, partitions), begin)
    offsets = dict(begin.offsets if isinstance(begin, Progress) else begin)
    return Lane(partition, generation, meter, offsets, reached=reached or {})


def _by_place(message: Received) -> tuple[str, int]:
    return message.topic, message.record.offset
