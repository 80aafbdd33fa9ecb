"""Opens lanes: loads the progress that a partition's commit points to, and sends the reader to where it begins.

Knows the commit, the progress record and the start of the log; decides nothing about rows. Law: a lane begins at its
progress or at the log's start, never between, and the reader with it (tests/integration/test_worker_rebalance.py).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from schemas.names import GPU_SAMPLES, INPUT_TOPICS

from .clock import monotonic_s
from .core.carry import Progress
from .errors import Retry, Stop
from .faust_app import Committed, FaustShell
from .lane import Lane, open_lane
from .log_reader import Layout, read_progress, topic_layout
from .progress import Pointer, decode_pointer
from .rules import Rules
from .watchdog import truncated


class Opener:
    """Opens the lanes of one worker."""

    def __init__(self, shell: FaustShell, bootstrap_servers: str, rules: Rules, layout: Layout) -> None:
        self._shell, self._servers = shell, bootstrap_servers
        self._rules, self._layout = rules, layout

    async def open(self, partitions: Sequence[int], generation: int) -> AsyncIterator[Lane]:
        """A lane for each partition; FencedError if the group moves on, Stop if the log no longer has its place."""
        began_s = monotonic_s()
        await self._require_layout()
        starts, committed = await self._shell.log_starts(partitions), await self._shell.committed(partitions)
        loaded = await asyncio.gather(*(self._progress_of(p, committed[p]) for p in partitions))
        topics = {topic: self._layout.ids[topic] for topic in INPUT_TOPICS}
        for partition, (progress, reached) in zip(partitions, loaded, strict=True):
            begin = progress or starts[partition]
            settings, count = self._rules.settings, self._layout.partitions
            lane = open_lane(partition, generation, settings, topics[GPU_SAMPLES], begin, reached, count)
            lane.topics, lane.partitions = topics, count
            for topic, offset in lane.expected.items():
                if starts[partition][topic] > offset:
                    raise Stop(truncated(topic, partition, offset, starts[partition][topic]))
            if lane.reread_left():
                self._shell.pause(partition, INPUT_TOPICS)
                lane.paused, lane.rereading = set(INPUT_TOPICS), True
            else:
                await self._shell.resume(partition, lane.expected)
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
        self._require_same(partition, pointer)
        progress = await asyncio.to_thread(read_progress, self._servers, partition, pointer)
        if progress.offsets != {topic: offset for topic, (offset, _) in committed.items()}:
            raise Stop(
                f"partition {partition}: progress says {progress.offsets}, the commit says {committed}. "
                f"A topic's commit goes with the topic: was one made anew? {_ANEW}"
            )
        return progress, pointer.reached

    async def _require_layout(self) -> None:
        """Retry if topics were made anew while this process ran, Stop if they have other partitions than before."""
        layout = await asyncio.to_thread(topic_layout, self._servers)
        if layout.partitions != self._layout.partitions:
            raise Stop(_grown(self._layout.partitions, layout.partitions))
        if layout.ids != self._layout.ids:
            anew = sorted(name for name, topic_id in layout.ids.items() if topic_id != self._layout.ids[name])
            raise Retry(f"topics {', '.join(anew)} were made anew; a restart looks where they begin")

    def _require_same(self, partition: int, pointer: Pointer) -> None:
        """Stop if a progress was made in other topics, or in another number of partitions."""
        if pointer.partitions not in (0, self._layout.partitions):
            raise Stop(_grown(pointer.partitions, self._layout.partitions))
        for topic, topic_id in pointer.topics.items():
            if topic_id != self._layout.ids[topic]:
                raise Stop(
                    f"{topic}/{partition}: the progress is of topic {topic_id}, the topic now there is "
                    f"{self._layout.ids[topic]}: it was made anew, and offsets mean something else in it. {_ANEW}"
                )


_ANEW = "Nothing goes on; delete the consumer group to begin anew where the topics now begin"


def _grown(before: int, now: int) -> str:
    return (
        f"the topics had {before} partitions and have {now}: counts never grow in place, since a node's records would "
        "go to another partition than those before. Make a new generation of topics and let it cut over at a window"
    )
