"""Which topics of a partition are not read for now, so that memory stays bounded and no topic runs far ahead.

After an outage gpu-samples has hours to read and pod-events too; what is read of the one before the other says what
it means is held in memory. Laws: the topic that is farthest back is never paused, so pausing cannot deadlock; only
gpu-samples is paused for memory; nothing is paused at the end of the log (tests/unit/stream_jobs/test_restraint.py, on
a real Kafka tests/integration/test_worker_memory.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from schemas.names import GPU_SAMPLES, INPUT_TOPICS

from .clock import monotonic_s, thread_cpu_s
from .errors import FencedError
from .lane import Lane

_NEAR_RECORDS = 100
"""A topic that has no more than this to come is at the end of its log; others do not begin to wait for it."""
_LOOK_SHARE = 50
"""A look takes no more than this part of a processor: some 15 ms for 360,000 readings, then the next after 0.75 s."""
_LONGEST_PAUSE_S = 10.0
"""But however much a look took, memory is looked at again after this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a partition was read, the topics that are paused, and the bounds."""

    clocks_us: Mapping[str, int]
    """Event time of each topic; left out where it had no clock yet."""
    behind: Mapping[str, int]
    """Records that each log has beyond what was read; left out where that is not known yet."""
    paused: frozenset[str] = frozenset()
    held_bytes: int = 0
    limit_bytes: int
    skew_us: int


def to_pause(at: Standing) -> frozenset[str]:
    """Topics that wait: those far ahead of the slowest one that has more to come, and gpu-samples where memory is full.

    What waits goes on at half the distance, and at 80 % of the memory, lest it stops and goes at each look.
    """
    near = 0 if at.paused else _NEAR_RECORDS
    behind = [topic for topic in INPUT_TOPICS if at.behind.get(topic, near + 1) > near]
    if not behind:
        return frozenset()
    slowest_us = min(at.clocks_us.get(topic, 0) for topic in behind)
    ahead_us = {topic: at.clocks_us.get(topic, 0) - slowest_us for topic in INPUT_TOPICS}
    far = {topic for topic, us in ahead_us.items() if us > at.skew_us / (2 if topic in at.paused else 1)}
    is_full = at.held_bytes > at.limit_bytes * (0.8 if GPU_SAMPLES in at.paused else 1.0)
    return frozenset(far | ({GPU_SAMPLES} if is_full and ahead_us[GPU_SAMPLES] > 0 else set()))


class Reader(Protocol):
    """What the restraint needs of the Faust shell."""

    def log_ends(self, partition: int) -> dict[str, int]:
        """Ends of the logs as last told."""

    def pause(self, partition: int, topics: Any) -> None:
        """Reads no more of them."""

    async def resume(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Reads on from there."""


class Restraint:
    """Pauses and resumes topics of the lanes of one worker."""

    def __init__(self, reader: Reader, limit_bytes: int, skew_us: int, log: Any) -> None:
        self._reader, self._limit_bytes, self._skew_us, self._log = reader, limit_bytes, skew_us, log
        self._next_look_s = 0.0
        self._was_full = False
        self.held_bytes = 0

    async def look(self, lanes: Mapping[int, Lane]) -> None:
        """Pauses what has to wait and resumes what need not any more."""
        if monotonic_s() < self._next_look_s:
            return
        # Processor time: a look in which the machine stood still has not cost what it took.
        cpu_s = thread_cpu_s()
        for lane in lanes.values():
            lane.held_bytes = lane.meter.held_bytes()
        self.held_bytes = sum(lane.held_bytes for lane in lanes.values())
        self._next_look_s = monotonic_s() + min(_LONGEST_PAUSE_S, _LOOK_SHARE * (thread_cpu_s() - cpu_s))
        for lane in [lane for lane in lanes.values() if not lane.rereading]:
            await self._apply(lane, to_pause(self._standing(lane)))
        is_full = self.held_bytes > self._limit_bytes
        if is_full and not self._was_full and not any(GPU_SAMPLES in lane.paused for lane in lanes.values()):
            # Nothing to wait for: the windows that are open need this much.
            self._log.warning(
                "memory over its limit", held_mib=self.held_bytes >> 20, limit_mib=self._limit_bytes >> 20
            )
        self._was_full = is_full

    def _standing(self, lane: Lane) -> Standing:
        ends = self._reader.log_ends(lane.partition)
        return Standing(
            clocks_us=lane.meter.topic_clocks(),
            behind={topic: end - lane.expected[topic] for topic, end in ends.items()},
            paused=frozenset(lane.paused),
            held_bytes=self.held_bytes,
            limit_bytes=self._limit_bytes,
            skew_us=self._skew_us,
        )

    async def _apply(self, lane: Lane, wanted: frozenset[str]) -> None:
        if stop := wanted - lane.paused:
            self._reader.pause(lane.partition, stop)
        if go := lane.paused - wanted:
            try:
                await self._reader.resume(lane.partition, {topic: lane.expected[topic] for topic in go})
            except FencedError as error:
                # The next round sees that the assignment has changed.
                self._log.warning("partition lost", partition=lane.partition, reason=str(error))
                return
        if wanted != lane.paused:
            lane.paused = set(wanted)
            clocks_us, held_mib = lane.meter.topic_clocks(), self.held_bytes >> 20
            self._log.info(
                "topics wait" if wanted else "topics go on",
                partition=lane.partition, paused=sorted(wanted), clocks_us=clocks_us, held_mib=held_mib,
            )  # fmt: skip
