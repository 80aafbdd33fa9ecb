"""Parts of Faust that do otherwise here: its consumer hands on a fetch at once, its assignor keeps partitions together.

Knows nothing of what a message means. Tested in tests/unit/stream_jobs/test_assignor.py and test_faust_app.py.
"""

from collections.abc import AsyncIterator
from typing import Any

from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from faust.assignor import PartitionAssignor
from faust.transport.drivers.aiokafka import Consumer
from faust.types import TP
from faust.types.tuples import ConsumerMessage


class _NoOffsets(dict[TP, int | None]):
    """Remembers nothing; see `FetchingConsumer`."""

    def __getitem__(self, key: TP) -> None:
        return None

    def __setitem__(self, key: TP, value: int | None) -> None:
        """Forgets it at once."""


class Fetched(ConsumerMessage):
    """Messages of one partition that came in one fetch, on their way through Faust as one."""

    __slots__ = ("messages",)

    def __init__(self, messages: list[Any]) -> None:
        last = messages[-1]
        super().__init__(
            last.topic, last.partition, last.offset, last.timestamp, last.timestamp_type, None, None, b"", None,
            tp=last.tp, generation_id=last.generation_id,
        )  # fmt: skip
        self.messages = messages


class FetchingConsumer(Consumer):
    """Faust's consumer, handing on the messages of a fetch together, and without its filter of those it handed on.

    Together, since what Faust does for a message costs it more CPU than all that is done with one of a thousand rows.
    Without the filter, since a message still on its way through Faust while the reader is sent back sets its mark
    again, and all up to it would be thrown away without a word. A lane knows itself what it has seen.
    """

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, ConsumerMessage]]:
        """The messages of a fetch, one `Fetched` a partition; none of a generation that is over."""
        fetched: dict[TP, list[Any]] = {}
        async for tp, message in super().getmany(timeout):
            fetched.setdefault(tp, []).append(message)
        for tp, messages in fetched.items():
            if messages[-1].generation_id == self.app.consumer_generation_id and self.flow_active:
                yield tp, Fetched(messages)

    def on_init(self) -> None:
        """Called once a consumer is made."""
        super().on_init()
        self._read_offset = _NoOffsets()


class TogetherAssignor(PartitionAssignor):
    """Gives partition n of all input topics to one worker, by Kafka's range assignor.

    What Faust takes without tables deals out (topic, partition) one by one: with three workers, or an odd number of
    partitions, the topics of one partition went to different workers, and none of them ever closed a window.
    """

    name = RangePartitionAssignor.name
    version = RangePartitionAssignor.version
    unassigned: frozenset[str] = frozenset()
    """Topics that the assignment at hand leaves out, if it was made here: the brokers had not told their partitions."""
    _left_out: frozenset[str] = frozenset()

    def metadata(self, topics: set[str]) -> Any:
        """What a member tells the group: its topics."""
        return RangePartitionAssignor.metadata(topics)

    def assign(self, cluster: Any, member_metadata: Any) -> Any:
        """Partitions of each member."""
        topics = {topic for metadata in member_metadata.values() for topic in metadata.subscription}
        self._left_out = frozenset(topic for topic in topics if not cluster.partitions_for_topic(topic))
        return RangePartitionAssignor.assign(cluster, member_metadata)

    def on_assignment(self, assignment: Any) -> None:
        """Nothing is kept from one assignment to the next but what the one at hand lacks."""
        self.unassigned, self._left_out = self._left_out, frozenset()
