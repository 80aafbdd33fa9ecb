"""Readings that wait for long, decoded anew without the messages they came with, so that those can go.

A reading keeps its whole block. One far ahead of the clock would keep up to 1,000 messages of other nodes for as long
as it waits, and its size would tell of none of them. Law: the rows are the same (tests/property/test_apart.py).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schemas.names import GPU_SAMPLES
from stream_jobs.decode import DecodeError

from .cluster import ClusterState
from .contents import LogRecord
from .held import Arrived
from .node import Buffered

_TOGETHER_US = 600_000_000
"""Readings of times this near share a block: they can go at about the same time, and a block is cheaper than many."""

Waiting = tuple[Buffered, Arrived, bytes]


@dataclass(slots=True)
class Apart:
    """Readings of one feed that will wait, by the time they touch."""

    _waiting: dict[int, list[Waiting]] = field(default_factory=lambda: defaultdict(list))

    def note(self, cluster: ClusterState, node: str, arrived: Arrived, record: LogRecord) -> None:
        """Notes a reading that was taken if it is held and starts far ahead of its cluster's clock.

        A cluster whose clock is unknown for longer than that may never have one.
        """
        clock_us = cluster.clocks[GPU_SAMPLES].now_us
        ahead_us = record.append_us - cluster.heard_us if clock_us is None else arrived.start_us - clock_us
        if ahead_us <= cluster.settings.ahead_us:
            return
        held = cluster.nodes[node].buffered[-1:]
        if held and held[0].reading.offset == record.offset:
            self._waiting[arrived.start_us // _TOGETHER_US].append((held[0], arrived, record.payload))

    def settle(self, arrive: Callable[[Sequence[bytes]], list[Arrived | DecodeError]], readings: int) -> None:
        """Gives those that were noted blocks of their own, unless all readings of the feed wait for the same time."""
        waiting, self._waiting = self._waiting, defaultdict(list)
        for group in waiting.values():
            if len(group) == readings:
                return
            found = arrive([payload for _, _, payload in group])
            for (held, before, _), arrived in zip(group, found, strict=True):
                if isinstance(arrived, DecodeError):
                    raise arrived
                arrived.share_devices(before.devices)
                old = held.reading
                alone = arrived._replace(flags=before.flags)
                held.reading = alone.held(old.boot_id, old.epoch_us, old.seq, old.offset)
