"""The agent's outlet: every message goes through a bounded spool on disk, first in, first out, and out to the broker.

A message is written (not synced) before it is handed to the producer, so a kill loses nothing. It stays until it is
acknowledged; a new process sends what the old one left first, as it was. Files are synced, beside the caller, only
while something waits (spool_sync.py): a power loss may cost what was unacknowledged and younger than that. Where the
disk cannot be written, messages wait in memory, also bounded. What has to go is the oldest, and each number that was
not handed over in its turn is told as a gap in its place (schemas/gaps.py). Nothing here waits for the broker.
Laws: every number arrives, in order, or is told (tests/property/test_spool.py, and on a real broker
tests/integration/test_spool_on_kafka.py).
"""

import logging
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from schemas.gaps import Gap, encode_gap
from schemas.headers import GAP, Headers

from .clock import Clock, Deadline
from .errors import Kept, Retry
from .publish import ACKNOWLEDGED, AGAIN, NEVER, Done
from .spool_backlog import Backlog
from .spool_records import Mark, Stream, numbered
from .spool_store import Place

logger = logging.getLogger(__name__)
RESEND_S = 1.0
FLIGHT_BYTES, FLIGHT_MESSAGES = 256 << 10, 64
"""What is handed to the producer at a time; the rest waits on disk."""
KEPT_STREAMS = 4


class Carrier(Protocol):
    """The producer as the spool knows it."""

    acknowledged: int
    failed: int

    def offer(self, topic: str, headers: Headers, payload: bytes, done: Done) -> None:
        """Queue a message; `done` is told what became of it."""

    def poll(self) -> None:
        """Serve acknowledgements without waiting."""

    def wait(self, timeout_s: float) -> int:
        """Serve them for so long; how many messages are left."""


class _Flight:
    """A message that was handed to the producer; `place` is behind it on disk, None where it is not there."""

    def __init__(self, mark: Mark, payload: bytes, place: Place | None = None) -> None:
        self.mark, self.payload, self.place = mark, payload, place
        self.outcome = ""

    @property
    def is_gap(self) -> bool:
        """Whether it tells a gap."""
        return self.mark.headers.record == GAP

    def told(self, outcome: str) -> None:
        """What became of it."""
        self.outcome = outcome


class Spool:
    """Outlet over a producer; `path` None or not usable: memory alone. Counts are for metrics."""

    def __init__(
        self, carrier: Carrier, clock: Clock, path: Path | None, *, limit_bytes: int, memory_bytes: int
    ) -> None:
        self.dropped = 0
        self.gaps = 0
        self._carrier, self._clock = carrier, clock
        self._flights: deque[_Flight] = deque()
        self._flight_bytes = 0
        self._began: dict[Stream, int] = {}
        self._handed: dict[Stream, Mark] = {}
        self._told: dict[Stream, Mark] = {}
        self._resend: Deadline | None = None
        self._leaving: dict[Stream, int] = {}
        self._backlog = Backlog(path, limit_bytes, memory_bytes, self._opened)
        self._backlog.open()

    @property
    def acknowledged(self) -> int:
        """Messages that the broker has."""
        return self._carrier.acknowledged

    @property
    def failed(self) -> int:
        """Times that the broker refused a message; it is sent again, or told as a gap."""
        return self._carrier.failed

    @property
    def waiting(self) -> int:
        """Messages that are not acknowledged yet, in whatever epoch; may be read from another thread."""
        told = dict(self._told)
        left = [mark.seq - (told[stream].seq if stream in told else 0) for stream, mark in self._backlog.marks()]
        return sum(left) + self._backlog.in_memory

    @property
    def faults(self) -> int:
        """Times that the disk failed."""
        return self._backlog.faults

    @property
    def syncs(self) -> int:
        """Times that files were synced."""
        return self._backlog.syncs

    @property
    def held_bytes(self) -> int:
        """Bytes on disk and in memory, delivered ones of the newest file among them."""
        return self._backlog.held_bytes

    @property
    def on_disk(self) -> bool:
        """Whether messages go to disk."""
        return self._backlog.on_disk

    @property
    def is_behind(self) -> bool:
        """Whether something is not acknowledged."""
        return bool(self._flights) or not self._backlog.is_empty

    def produce(self, topic: str, node: str, headers: Headers, payload: bytes) -> bool:
        """Takes a message, always; where something has to go for it, that is the oldest."""
        stream = (topic, headers.boot_id, headers.epoch_us)
        now_us = self._clock.event_us()
        if stream not in self._began:
            self._began = {known: us for known, us in self._began.items() if known[1:] == stream[1:]}
            self._began[stream] = now_us
        self._backlog.put(Mark(topic, headers, now_us, self._began[stream]), payload)
        self._hand_over()
        return True

    def poll(self) -> None:
        """Takes acknowledgements and hands over what waits; never waits itself."""
        self._carrier.poll()
        self._advance()
        self._backlog.to_disk()
        self._hand_over()
        self._backlog.sync_while(self.is_behind)

    def flush(self, timeout_s: float) -> None:
        """Waits until all is acknowledged; Kept where the rest is safe on disk, Retry where it is not."""
        deadline = Deadline(timeout_s)
        self.poll()
        while self.is_behind and deadline.left_s:
            self._carrier.wait(min(0.2, deadline.left_s))
            self.poll()
        if not self.is_behind:
            return
        text = f"{len(self._flights)} messages in flight, {self.held_bytes} bytes in the spool: not all acknowledged"
        in_memory = self._backlog.in_memory > 0 or any(f.place is None and not f.is_gap for f in self._flights)
        if in_memory or not self._backlog.sync_now():
            raise Retry(f"{text} within {timeout_s:g} s; some are not safe on disk")
        raise Kept(f"{text} within {timeout_s:g} s; they lie on disk and go first next time")

    def close(self) -> None:
        """Gives the directory back; writes nothing, so what is on disk is what a kill would leave."""
        self._backlog.close()

    def _opened(self, told: list[Mark]) -> None:
        known = {mark.stream: mark for mark in told}
        self._told, self._handed = known | self._told, known | self._handed
        self._forget_finished_streams()

    def _hand_over(self) -> None:
        """Hands to the producer what has room in flight, in order."""
        if self._resend is not None and not self._resend.left_s:
            self._resend = None
            for flight in self._flights:
                if flight.outcome == AGAIN:
                    self._offer(flight)
        while self._flight_bytes < FLIGHT_BYTES and len(self._flights) < FLIGHT_MESSAGES:
            coming = self._backlog.next()
            if coming is None:
                break
            self._reach(coming.reached)
            if coming.mark is not None:
                if coming.mark.seq > 1:
                    self._reach([numbered(coming.mark, coming.mark.seq - 1)])
                self._send(_Flight(coming.mark, coming.payload, coming.place))
            elif self._backlog.is_empty:
                break
        self._advance()

    def _send(self, flight: _Flight) -> None:
        known = self._handed.get(flight.mark.stream)
        if known is None or known.seq < flight.mark.seq:
            self._handed[flight.mark.stream] = flight.mark
        self._flights.append(flight)
        self._flight_bytes += len(flight.payload)
        self._offer(flight)

    def _offer(self, flight: _Flight) -> None:
        flight.outcome = ""
        self._carrier.offer(flight.mark.topic, flight.mark.headers, flight.payload, flight.told)

    def _reach(self, marks: Iterable[Mark]) -> None:
        """Tells, as gaps, what was not handed over of the streams up to these marks."""
        for mark in sorted(marks, key=lambda mark: mark.at_us):
            known = self._handed.get(mark.stream)
            first = known.seq + 1 if known else 1
            if mark.seq >= first:
                self._send(_Flight(*self._gap(mark, first, known.at_us if known else mark.began_us, "dropped")))

    def _gap(self, mark: Mark, first: int, start_us: int, reason: str) -> tuple[Mark, bytes]:
        """A gap from a number to a mark, with the mark's own headers but for the kind."""
        self.gaps += 1
        self.dropped += mark.seq - first + 1
        headers = msgspec.structs.replace(mark.headers, record=GAP, complete_to_us=0)
        logger.warning("%s of epoch %d: %d to %d are lost: %s", mark.topic, headers.epoch_us, first, mark.seq, reason)
        gap = Gap(
            epoch_us=headers.epoch_us,
            first_seq=first,
            last_seq=mark.seq,
            start_us=min(start_us, mark.at_us),
            end_us=mark.at_us,
            reason=reason,
        )
        return msgspec.structs.replace(mark, headers=headers), encode_gap(gap)

    def _advance(self) -> None:
        """Takes what the producer said: remembers what is delivered, and puts a gap where it never will be."""
        for flight in self._flights:
            if flight.outcome == NEVER and not flight.is_gap:
                self._flight_bytes -= len(flight.payload)
                flight.mark, flight.payload = self._gap(flight.mark, flight.mark.seq, flight.mark.at_us, "too_large")
                self._flight_bytes += len(flight.payload)
                self._offer(flight)
            elif flight.outcome == AGAIN and self._resend is None:
                self._resend = Deadline(RESEND_S)
        place: Place | None = None
        moved = False
        while self._flights and self._flights[0].outcome in (ACKNOWLEDGED, NEVER):
            flight = self._flights.popleft()
            self._flight_bytes -= len(flight.payload)
            self._told.pop(flight.mark.stream, None)
            self._told[flight.mark.stream] = flight.mark
            place, moved = flight.place or place, True
        if moved:
            self._forget_finished_streams()
        if place is not None:
            self._backlog.acknowledge(place, self._told.values())

    def _forget_finished_streams(self) -> None:
        """Lets go of streams of which all is told, but for the newest; new files no longer begin with them.

        They are remembered as told until the last file that does is gone, lest they be told as lost from it.
        """
        written = self._backlog.written
        oldest, newest = self._backlog.numbers
        for stream in list(written)[:-KEPT_STREAMS]:
            if stream in self._told and self._told[stream].seq >= written[stream].seq:
                del written[stream]
                self._leaving[stream] = newest
        for stream in [stream for stream, number in self._leaving.items() if number < oldest]:
            del self._leaving[stream]
            self._told.pop(stream, None)
            self._handed.pop(stream, None)
