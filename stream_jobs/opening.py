"""Opens lanes: loads the progress that a partition's commit points to, and sends the reader to where it begins.

Knows the commit, the progress record and the start of the log; decides nothing about rows. Law: a lane begins at its
progress or at the log's start, never between, and the reader with it (tests/integration/test_worker_rebalance.py).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from .clock import monotonic_s
from .core.carry import Progress
from .errors import Stop
from .faust_app import Committed, FaustShell
from .lane import Lane, open_lane
from .log_reader import read_progress
from .progress import decode_pointer
from .rules import Rules
from .watchdog import truncated


class Opener:
    """Opens the lanes of one worker."""

    def __init__(self, shell: FaustShell, bootstrap_servers: str, rules: Rules, topic_id: str) -> None:
        self._shell, self._servers = shell, bootstrap_servers
        self._rules, self._topic_id = rules, topic_id

    async def open(self, partitions: Sequence[int], generation: int) -> AsyncIterator[Lane]:
        """A lane for each partition; FencedError if the group moves on, Stop if the log no longer has its place."""
        began_s = monotonic_s()
        starts, committed = await self._shell.log_starts(partitions), await self._shell.committed(partitions)
        loaded = await asyncio.gather(*(self._progress_of(p, committed[p]) for p in partitions))
        for partition, (progress, reached) in zip(partitions, loaded, strict=True):
            begin = progress or starts[partition]
            lane = open_lane(partition, generation, self._rules.settings, self._topic_id, begin, reached)
            for topic, offset in lane.expected.items():
                if starts[partition][topic] > offset:
                    raise Stop(truncated(topic, partition, offset, starts[partition][topic]))
            await self._shell.seek(partition, lane.expected)
            lane.resumed = progress is not None
            lane.opened_at_s, lane.saved_at_s = began_s, monotonic_s()
            yield lane

    async def _progress_of(self, partition: int, committed: Committed) -> tuple[Progress | None, dict[str, int]]:
        """The progress that the commit points to, and how far it had read; None for a group that never committed."""
        if not committed:
            return None, {}
        pointers = {metadata for _, metadata in committed.values()}
        if len(pointers) != 1:
            raise Stop(f"partition {partition}: the three topics' commits name different progress records: {committed}")
        pointer = decode_pointer(pointers.pop())
        progress = await asyncio.to_thread(read_progress, self._servers, partition, pointer)
        if progress.offsets != {topic: offset for topic, (offset, _) in committed.items()}:
            raise Stop(f"partition {partition}: progress says {progress.offsets}, the commit says {committed}")
        return progress, pointer.reached
