"""Writes the clock in the watcher's place while it is away for minutes and nodes go on: no input decides that alone.

What a worker writes is input like any other: it acts only on what it reads back, so the rows stay a function of the
log. Away is judged on the monotonic clock: for so long no record of the watcher came, up to where the log ended when it
was asked. Laws: never two clocks on their way; none while the watcher is there, while no node tells anything, or in
simulated time (tests/unit/stream_jobs/test_stand_in.py, on a real Kafka tests/integration/test_worker_override.py).
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.clock import CLOCK_PERIOD_US, ClockRecord, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.names import INPUT_TOPICS

from .errors import Retry
from .lane import Lane
from .publish import Outgoing

_PERIOD_S = CLOCK_PERIOD_US / 1e6
Ends = dict[int, dict[str, int]]


@dataclass(slots=True)
class _Watch:
    """What was read of a cluster on a partition when a clock came last; `away` once an override was read."""

    since_s: float
    """When that was."""
    clock_us: int
    clock_s: float
    """A time of the cluster's clock, and when it was that late; overrides are told from it, lest their way adds up."""
    clocks: int = 0
    overrides: int = 0
    readings: int = 0
    away: bool = False
    written_us: int = 0
    """Time of the override on its way."""


class Reader(Protocol):
    """What the stand-in needs of the Faust shell."""

    async def true_ends(self, partitions: Any) -> Ends:
        """Ends of the logs as the brokers say."""


class StandIn:
    """Watches the watchers of all clusters in the lanes of one worker."""

    def __init__(self, reader: Reader, send: Callable[[Outgoing], None], key: bytes, away_s: float, log: Any) -> None:
        self._reader, self._send, self._key, self._away_s, self._log = reader, send, key, away_s, log
        self._watches: dict[tuple[int, int, str], _Watch] = {}
        self._asked: asyncio.Task[tuple[float, Ends]] | None = None
        self._ends: tuple[float, Ends] = (float("-inf"), {})

    def look(self, lanes: Mapping[int, Lane], now_s: float) -> int:
        """Sends the overrides that are due, not flushed; how many messages."""
        silent = self._silent(lanes, now_s)
        self._take_ends()
        # Only an end that was asked when the silence was long enough tells that it reaches so far.
        due = [(lane, name, watch) for lane, name, watch, from_s in silent if self._is_read(lane, from_s)]
        if len(due) < len(silent) and self._asked is None:
            partitions = sorted({lane.partition for lane, *_ in silent})
            self._asked = asyncio.create_task(self._ask(partitions, now_s))
        return sum(self._write(lane, name, watch, now_s) for lane, name, watch in due)

    def away(self, partition: int) -> int:
        """Clusters whose watcher is away, of those in a partition."""
        return sum(watch.away for (at, _, _), watch in self._watches.items() if at == partition)

    def _silent(self, lanes: Mapping[int, Lane], now_s: float) -> list[tuple[Lane, str, _Watch, float]]:
        """Clusters without a clock for too long, and since when it has been too long."""
        there, found = {}, []
        for lane in lanes.values():
            for name in lane.meter.heard:
                place = (lane.partition, lane.generation, name)
                watch = there[place] = self._watched(place, lane, name, now_s)
                heard, from_s = lane.meter.heard[name], watch.since_s + (_PERIOD_S if watch.away else self._away_s)
                # Without one clock of the watcher nobody knows what time it is in that cluster.
                waits = lane.paused or not watch.clock_us or lane.meter.clock_of(name, min) < watch.written_us
                if now_s >= from_s and heard.readings > watch.readings and not waits:
                    found.append((lane, name, watch, from_s))
        self._watches = there
        return found

    def _watched(self, place: tuple[int, int, str], lane: Lane, name: str, now_s: float) -> _Watch:
        heard, watch = lane.meter.heard[name], self._watches.get(place)
        clock_us = lane.meter.clock_of(name, max)
        if watch is None:
            watch = _Watch(now_s, clock_us, now_s)
        if (heard.clocks, heard.overrides) == (watch.clocks, watch.overrides):
            return watch
        told = _Watch(now_s, clock_us, now_s, heard.clocks, heard.overrides, heard.readings, heard.is_override)
        if told.away:
            told.written_us = watch.written_us
            if clock_us == watch.written_us:
                told.clock_us, told.clock_s = watch.clock_us, watch.clock_s
        elif watch.away:
            self._log.info("watcher is back", cluster=name, partition=lane.partition)
        return told

    def _is_read(self, lane: Lane, from_s: float) -> bool:
        asked_s, ends = self._ends
        own = ends.get(lane.partition)
        return asked_s >= from_s and own is not None and all(lane.expected[t] >= end for t, end in own.items())

    def _take_ends(self) -> None:
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            try:
                self._ends = asked.result()
            except Retry as error:
                self._log.info("the log's end is not known", reason=str(error))

    async def _ask(self, partitions: list[int], now_s: float) -> tuple[float, Ends]:
        return now_s, await self._reader.true_ends(partitions)

    def _write(self, lane: Lane, name: str, watch: _Watch, now_s: float) -> int:
        watch.written_us = watch.clock_us + round((now_s - watch.clock_s) * 1e6)
        if not watch.away:
            silent_s = round(now_s - watch.since_s)
            self._log.warning("watcher is away", cluster=name, partition=lane.partition, silent_s=silent_s)
        headers = encode_headers(Headers(record=CLOCK, cluster=name))
        for topic in INPUT_TOPICS:
            record = ClockRecord(cluster=name, now_us=watch.written_us, override=True)
            payload = encode_clock(record, self._key, topic, lane.partition)
            self._send(Outgoing(topic, lane.partition, name.encode(), headers, payload))
        return len(INPUT_TOPICS)
