"""The worker's provisional figures: when to make them, for how long, and off to gpu-live without waiting.

Shell around core/live.py. Laws: of any stretch of time they take at most their share of a processor (beyond the batch
of nodes that ends it) and never hold a round up for longer than LONGEST_TURN_S, so with more nodes they come less
often; a lane that reads again, or is behind its log, makes none; what the broker does not take is lost and counted, and
nothing waits for it (tests/unit/stream_jobs/test_live_figures.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from schemas.names import GPU_SAMPLES

from .clock import monotonic_s, thread_cpu_s, wall_us
from .lane import Lane
from .live_messages import live_messages
from .publish import Outgoing

NODES_A_BATCH = 20
LONGEST_TURN_S = 0.5
MOST_SAVED_S = 2.0
"""Time whose share may be saved up while there is nothing to do."""
BEHIND_US = 10_000_000
"""A lane whose newest record was appended longer ago shows the past: catching up goes first."""


@dataclass(slots=True)
class LiveFigures:
    """Makes provisional figures of lanes, a share of the time; `every_s` 0: none."""

    send: Callable[[Outgoing], None]
    every_s: float
    share: float
    now_s: Callable[[], float] = monotonic_s
    cpu_now_s: Callable[[], float] = thread_cpu_s
    rows: int = 0
    cpu_s: float = 0.0
    """Processor time that it took."""
    _at_s: float | None = None
    _may_s: float = 0.0
    _turns: int = field(default=0)

    def turn(self, lanes: Iterable[Lane]) -> None:
        """Publishes what is new of lanes that are where their log ends, until its share of the time is used up."""
        if not self.every_s:
            return
        began_s, cpu_s = self.now_s(), self.cpu_now_s()
        since_s = 0.0 if self._at_s is None else began_s - self._at_s
        self._may_s = min(self._may_s + self.share * since_s, self.share * MOST_SAVED_S)
        self._at_s = began_s
        waiting = [lane for lane in lanes if _is_current(lane, wall_us())]
        self._turns += 1
        while waiting and self.cpu_now_s() - cpu_s < self._may_s and self.now_s() - began_s < LONGEST_TURN_S:
            lane = waiting[self._turns % len(waiting)]
            table = lane.meter.provisional(NODES_A_BATCH, began_s, self.every_s)
            if table is None:
                waiting.remove(lane)
                continue
            self.rows += table.num_rows
            for message in live_messages(table, lane.partition):
                self.send(message)
        took_s = self.cpu_now_s() - cpu_s
        self._may_s -= took_s
        self.cpu_s += took_s


def _is_current(lane: Lane, wall_now_us: int) -> bool:
    append_us = lane.counts.append_us.get(GPU_SAMPLES)
    return append_us is not None and wall_now_us - append_us <= BEHIND_US and not lane.reread_left()
