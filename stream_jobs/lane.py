"""One partition of the three input topics in one generation of the group: its meter and its place in the log.

Owns which offset comes next; knows neither Kafka nor Faust. An offset names one record for ever, so it does not matter
in which generation a message came. Laws: a message below the expected offset is passed over, one above it is a gap and
never fed (tests/unit/stream_jobs/test_lane.py).
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from schemas.names import INPUT_TOPICS

from .core.carry import Progress
from .core.meter import LogRecord, PartitionMeter, Refused
from .core.settings import MeterSettings, Source
from .progress import Pointer, digest, encode_body


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it came from a topic, with the generation in which it came."""

    topic: str
    partition: int
    generation: int
    record: LogRecord


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
    committed: bool = False
    """Whether a progress of this lane was committed."""
    gaps: dict[str, Gap] = field(default_factory=dict)
    """Topics whose last message was too far ahead; such messages are not fed."""
    silent_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(INPUT_TOPICS, 0.0))
    """For how long nothing has been fed from a topic, as far as anyone looked."""

    def feed(self, messages: Sequence[Received]) -> list[Refused]:
        """Gives the meter what comes next in each topic; what is too far ahead is left out and noted as a gap."""
        refused: list[Refused] = []
        for topic, run in groupby(sorted(messages, key=_by_place), key=attrgetter("topic")):
            records = [m.record for m in run if self._is_next(m)]
            refused += self.meter.feed(topic, records)
        return refused

    def closed(self) -> Iterator[pa.Table]:
        """Tables of all windows that can be closed now."""
        while (table := self.meter.close_ready()) is not None:
            yield table

    def unsaved(self) -> Saved | None:
        """The progress of now, if it differs from the one saved last."""
        progress = self.meter.progress()
        if progress is None:
            return None
        body = encode_body(progress)
        return None if digest(body) == self.saved_sha256 else Saved(progress, body, self.slot)

    def note_saved(self, saved: Saved, chunks: list[int]) -> Pointer:
        """Pointer to a progress that lies in meter-progress at `chunks`; the next one goes to the other slot."""
        sha256 = digest(saved.body)
        self.slot, self.saved_sha256 = 1 - saved.slot, sha256
        return Pointer(1, self.writer, saved.slot, chunks, sha256)

    def _is_next(self, message: Received) -> bool:
        offset, expected = message.record.offset, self.expected[message.topic]
        if offset < expected:
            return False
        if offset > expected:
            self.gaps[message.topic] = Gap(message.topic, self.partition, expected, offset)
            return False
        self.gaps.pop(message.topic, None)
        self.expected[message.topic] = offset + 1
        self.silent_s[message.topic] = 0.0
        return True


def open_lane(
    partition: int,
    generation: int,
    settings: MeterSettings,
    topic_id: str,
    begin: Progress | dict[str, int],
) -> Lane:
    """A lane that goes on from a progress, or begins at the given offset of each topic: where its log starts."""
    progress = begin if isinstance(begin, Progress) else None
    meter = PartitionMeter(settings, Source(partition, topic_id), progress)
    return Lane(partition, generation, meter, dict(begin.offsets if isinstance(begin, Progress) else begin))


def _by_place(message: Received) -> tuple[str, int]:
    return message.topic, message.record.offset
