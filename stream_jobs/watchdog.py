"""Whether messages come: a worker that reads nothing more without a word is worse than one that ends.

Faust throws away what it had fetched when an assignment changes, and does not always read it again. So silence is held
against the log itself: where it has more, the reader is sent back to what is expected, and if that does not help the
process ends with Retry. Decides by what it is told; a frozen process (SIGSTOP) counts for one step. Tested in
tests/unit/stream_jobs/test_watchdog.py and, with seeds that stalled before, tests/chaos.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import FencedError, Retry, Stop
from .lane import Lane

AGAIN_S = 7.0
"""The clock comes every 5 s; where the log has more and nothing came for this long, the reader is sent back to it."""
SILENCE_S = 20.0
"""Where that did not help, reading has died within the process."""
UNSETTLED_S = 60.0
"""A rebalance takes seconds; a process without an assignment for so long is stuck."""
_LONGEST_STEP_S = 1.0
"""Of a longer pause between two looks (a frozen process, a long round) no more counts as silence."""


_MUCH_RECORDS = 1000
"""The consumer hands on one partition's fetch of up to 1 MB whole before the next one's."""


class Reader(Protocol):
    """What the watchdog needs of the Faust shell."""

    def log_ends(self, partition: int) -> dict[str, int]:
        """Ends of the logs as the last fetch told."""

    async def true_ends(self, partitions: Any) -> dict[int, dict[str, int]]:
        """Ends of the logs as the brokers say."""

    async def log_starts(self, partitions: Any) -> dict[int, dict[str, int]]:
        """Starts of the logs as the brokers say."""

    async def seek(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Reads on from there."""


Places = dict[int, dict[str, int]]
"""Partition to topic to offset."""


@dataclass(frozen=True, slots=True)
class _Question:
    """Where the logs of some partitions begin and end; `expected` is what was next when it was asked."""

    expected: Places
    answer: asyncio.Task[tuple[Places, Places]]


class Watchdog:
    """Watches the lanes of one worker."""

    def __init__(self, reader: Reader, log: Any) -> None:
        self._reader, self._log = reader, log
        self._unsettled_s = 0.0
        self._asked: _Question | None = None
        self._sent_back_s: dict[tuple[int, str], float] = {}

    def note_unsettled(self, step_s: float) -> None:
        """Counts time without an assignment; Retry where it is too long."""
        self._unsettled_s += min(step_s, _LONGEST_STEP_S)
        if self._unsettled_s > UNSETTLED_S:
            raise Retry(f"no assignment for {UNSETTLED_S:.0f} s; a restart joins the group anew")

    async def look(self, lanes: Mapping[int, Lane], step_s: float) -> None:
        """Counts silence; sends the reader back, or ends the process, where the log has what does not come."""
        self._unsettled_s = 0.0
        step_s = 0.0 if self._is_busy(lanes) else min(step_s, _LONGEST_STEP_S)
        for lane in lanes.values():
            for topic, silent_s in lane.silent_s.items():
                lane.silent_s[topic] = 0.0 if topic in lane.paused | lane.fed else silent_s + step_s
            lane.fed.clear()
        silent = {(p, topic) for p, lane in lanes.items() for topic, s in lane.silent_s.items() if s > AGAIN_S}
        self._sent_back_s = {place: at_s for place, at_s in self._sent_back_s.items() if place in silent}
        if self._asked is None:
            if silent:
                # Beside the rounds, which must not wait for a broker that does not answer.
                expected = {p: dict(lanes[p].expected) for p in sorted({p for p, _ in silent})}
                self._asked = _Question(expected, asyncio.create_task(self._ask(list(expected))))
        elif self._asked.answer.done():
            asked, self._asked = self._asked, None
            try:
                starts, ends = asked.answer.result()
            except Retry as error:
                # The broker is away: nothing can be said of the log, and silence is no wonder.
                self._log.info("the log's end is not known", reason=str(error))
            else:
                await self._judge(lanes, {place for place in silent if place[0] in asked.expected}, asked, starts, ends)

    def _is_busy(self, lanes: Mapping[int, Lane]) -> bool:
        """Whether some topic was fed just now and has much to come: others wait for it within the consumer."""
        for lane in lanes.values():
            ends = self._reader.log_ends(lane.partition) if lane.fed else {}
            if any(ends.get(topic, 0) - lane.expected[topic] > _MUCH_RECORDS for topic in lane.fed):
                return True
        return False

    async def _ask(self, partitions: list[int]) -> tuple[Places, Places]:
        return await self._reader.log_starts(partitions), await self._reader.true_ends(partitions)

    async def _judge(
        self, lanes: Mapping[int, Lane], silent: set[tuple[int, str]], asked: _Question, starts: Places, ends: Places
    ) -> None:
        for partition, topic in sorted(silent):
            lane = lanes[partition]
            silent_s, expected, end = lane.silent_s[topic], lane.expected[topic], ends[partition][topic]
            was_expected = asked.expected[partition][topic]
            if starts[partition][topic] > expected:
                raise Stop(truncated(topic, partition, expected, starts[partition][topic]))
            if end < was_expected:
                # Not held against what is expected by now: the log may have grown, and been read, since it answered.
                raise Stop(
                    f"{topic}/{partition}: the log ends at {end}, offset {was_expected} is next: the topic was made "
                    "anew, or the brokers lost what was metered. Nothing goes on; delete the consumer group to begin "
                    "anew"
                )
            if was_expected != expected:
                # It was read on since, and the answer is an old one: a new question is asked at the next look.
                continue
            if end == expected:
                lane.silent_s[topic] = 0.0
            elif silent_s > SILENCE_S:
                raise Retry(
                    f"{topic}/{partition}: the log ends at {end}, but offset {expected} did not come for "
                    f"{SILENCE_S:.0f} s; a restart reads on from the committed place"
                )
            elif silent_s - self._sent_back_s.get((partition, topic), 0.0) > AGAIN_S:
                self._sent_back_s[partition, topic] = silent_s
                self._log.warning("sent back", topic=topic, partition=partition, offset=expected, log_end=end)
                await self._send_back(partition, topic, expected)

    async def _send_back(self, partition: int, topic: str, offset: int) -> None:
        try:
            await self._reader.seek(partition, {topic: offset})
        except FencedError as error:
            # The next round sees that the assignment has changed.
            self._log.warning("partition lost", partition=partition, reason=str(error))


def truncated(topic: str, partition: int, expected: int, start: int) -> str:
    """What to say where the log begins beyond the place to read on from."""
    return (
        f"{topic}/{partition}: offset {expected} is next, the log starts at {start}: records were deleted before they "
        "were metered (log_truncated). Their time would be missing without a word, so nothing goes on; delete the "
        "consumer group to begin anew"
    )
