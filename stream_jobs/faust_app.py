"""The Faust shell: app, topics, assignment, and commits through the consumer inside Faust (with faust_parts.py).

Faust's own acks are not used: they are not contiguous and committed beyond unacknowledged messages. What a message
means is the worker's business (worker.py). Law: a commit carries the generation it was decided in, or does not happen
(tests/unit/stream_jobs/test_commit.py, tests/integration/test_worker_rebalance.py).
"""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import faust
from aiokafka import TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import (  # type: ignore[import-untyped]
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]
from faust.types import TP

from schemas.names import INPUT_TOPICS

from .core.contents import LogRecord
from .errors import FencedError, Retry
from .faust_parts import FetchingConsumer, TogetherAssignor
from .lane import Received
from .odd_headers import tolerate_odd_headers
from .settings import WorkerSettings

COMMIT_S = 45.0
"""How long a commit is tried: longer than a group needs to find another coordinator, shorter than publishing is."""
_COMMIT_PAUSE_S = 0.1
_OVER = (IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)

Committed = dict[str, tuple[int, str]]
"""Topic to committed offset and metadata; a topic without a commit is left out."""


class FaustShell:
    """A Faust app that hands every message of the input topics to `receive` and runs `loop` beside it."""

    def __init__(
        self,
        settings: WorkerSettings,
        receive: Callable[[Received], Awaitable[None]],
        loop: Callable[[], Awaitable[None]],
    ) -> None:
        tolerate_odd_headers()
        self.app = _make_app(settings)
        self.app.transport.Consumer = FetchingConsumer
        topic = self.app.topic(
            *INPUT_TOPICS,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            acks=False,
        )

        async def meter(stream: Any) -> None:
            async for event in stream.events():
                for message in event.message.messages:
                    await receive(_received(message))

        self.app.agent(topic, name="meter")(meter)
        self.app.task(loop)

    @property
    def generation(self) -> int:
        """Generation of the group in which the current assignment was made."""
        return int(self.app.consumer_generation_id)

    @property
    def is_stopping(self) -> bool:
        """Whether the process was told to end: its consumer may be gone at any moment."""
        return bool(self.app.should_stop)

    @property
    def is_settled(self) -> bool:
        """Whether the group knows this worker by that generation and Faust lets messages through.

        If not, a new assignment is under way, and Faust throws away what it had fetched.
        """
        consumer = self.app.consumer._thread._consumer
        is_member = consumer is not None and consumer._coordinator.generation == self.generation
        return bool(is_member and self.app.consumer.flow_active and not self.app.rebalancing)

    @property
    def unassigned(self) -> frozenset[str]:
        """Topics without which this worker, as the group's leader, has dealt out the partitions."""
        return frozenset(self.app.assignor.unassigned)

    @property
    def reaches_group(self) -> bool:
        """Whether the group's coordinator answers heartbeats; while the broker is away it does not."""
        consumer = self.app.consumer._thread._consumer
        return consumer is not None and consumer._coordinator.coordinator_id is not None

    def partitions(self) -> set[int]:
        """Partitions of which this worker has all input topics in the current generation."""
        assigned = {(tp.topic, tp.partition) for tp in self.app.consumer.assignment()}
        return {p for _, p in assigned if all((topic, p) in assigned for topic in INPUT_TOPICS)}

    async def seek(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Reads on from an offset in each of some topics; FencedError if the partition is gone.

        Faust itself seeks to the commit after an assignment, but not where that is 0 or there is none: what it had
        fetched and thrown away until then would never come again.
        """
        try:
            await self.app.consumer.seek_wait({TP(topic, partition): offset for topic, offset in offsets.items()})
        except IllegalStateError as error:
            raise FencedError(str(error)) from error
        except TimeoutError as error:
            raise Retry(f"partition {partition}: the consumer did not go to {dict(offsets)}") from error

    def pause(self, partition: int, topics: Iterable[str]) -> None:
        """Reads no more of some topics of a partition; what is on its way through Faust may come or be lost."""
        self.app.consumer.pause_partitions({TP(topic, partition) for topic in topics})

    async def resume(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Reads on from an offset in each of some topics, paused or not; FencedError if the partition is gone."""
        self.app.consumer.resume_partitions({TP(topic, partition) for topic in offsets})
        await self.seek(partition, offsets)

    def log_ends(self, partition: int) -> dict[str, int]:
        """Next offset of each input topic's log as the last fetch told; a topic that was not fetched is left out."""
        found = {}
        for topic in INPUT_TOPICS:
            try:
                end = self.app.consumer.highwater(TopicPartition(topic, partition))
            except AssertionError:
                # aiokafka's word for a partition that was taken away in this moment, in the consumer's own thread.
                continue
            if end is not None:
                found[topic] = int(end)
        return found

    async def committed(self, partitions: Sequence[int]) -> dict[int, Committed]:
        """Committed offset and metadata of partitions, by input topic; Retry if the broker does not say."""
        wanted = [TopicPartition(topic, partition) for partition in partitions for topic in INPUT_TOPICS]
        try:
            found = await self._call(lambda c: c._coordinator.fetch_committed_offsets(wanted)) if wanted else {}
        except KafkaError as error:
            raise Retry(f"committed offsets of partitions {list(partitions)}: {error!r}") from error
        there = {tp: (at.offset, at.metadata) for tp, at in found.items() if at.offset >= 0}
        return {p: {tp.topic: at for tp, at in there.items() if tp.partition == p} for p in partitions}

    async def log_starts(self, partitions: Sequence[int]) -> dict[int, dict[str, int]]:
        """First offset that the log still has, by partition and input topic; Retry if the broker is away.

        One request for all: on the consumer's connection it waits behind a fetch, which may wait for 1.5 s itself.
        """
        wanted = [TopicPartition(topic, partition) for partition in partitions for topic in INPUT_TOPICS]
        try:
            found = await self._call(lambda c: c.beginning_offsets(wanted)) if wanted else {}
        except KafkaError as error:
            raise Retry(f"start of the log of partitions {list(partitions)}: {error!r}") from error
        return {p: {tp.topic: int(at) for tp, at in found.items() if tp.partition == p} for p in partitions}

    async def true_ends(self, partitions: Iterable[int]) -> dict[int, dict[str, int]]:
        """Next offset of each input topic's log, by partition, asked of the brokers now; Retry if one is away."""
        wanted = [TopicPartition(topic, partition) for partition in partitions for topic in INPUT_TOPICS]
        try:
            found = await self._call(lambda c: c.end_offsets(wanted))
        except KafkaError as error:
            raise Retry(f"end of the log of partitions {list(partitions)}: {error!r}") from error
        ends: dict[int, dict[str, int]] = {}
        for tp, end in found.items():
            ends.setdefault(tp.partition, {})[tp.topic] = int(end)
        return ends

    async def commit(self, generation: int, partition: int, offsets: dict[str, int], metadata: str) -> None:
        """Commits a partition's offsets with their metadata, all at once.

        FencedError if the group has moved on; Retry if its coordinator did not take them within COMMIT_S.
        """
        wanted = {TopicPartition(t, partition): OffsetAndMetadata(o, metadata) for t, o in offsets.items()}
        try:
            await self._call(lambda consumer: _commit_in(consumer, generation, wanted))
        except KafkaError as error:
            raise Retry(f"commit of partition {partition}: {error!r}") from error

    async def _call(self, function: Callable[[Any], Awaitable[Any]]) -> Any:
        """Runs a coroutine on the consumer inside Faust, in that consumer's own thread."""
        thread = self.app.consumer._thread
        return await thread.call_thread(function, thread._consumer)

    def run(self) -> int:
        """Runs until a signal; 0 after SIGTERM or SIGINT, else Faust's own code."""
        worker = faust.Worker(
            self.app, loglevel="WARN", redirect_stdouts=False, override_logging=False, quiet=True, debug=False
        )
        worker.spinner = None
        try:
            worker.execute_from_commandline()
        except SystemExit as end:
            return int(end.code or 0)
        return 0


async def _commit_in(consumer: Any, generation: int, wanted: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Commits in a generation or not at all, in the consumer's own thread.

    Not by the consumer's `commit`: that tries for ever, each time under whatever generation it is in by then, so that
    what was read before a rebalance could replace what the partition's next owner has committed.
    """
    coordinator, trouble = consumer._coordinator, "no answer"
    try:
        async with asyncio.timeout(COMMIT_S):
            while True:
                await coordinator.ensure_coordinator_known()
                if coordinator.generation != generation:
                    raise FencedError(f"generation {coordinator.generation}, not {generation}")
                if lost := wanted.keys() - consumer.assignment():
                    raise FencedError(f"{sorted(lost)} are not assigned")
                try:
                    # Its request, with generation and member, is made before it gives way for the first time.
                    await coordinator._do_commit_offsets(None, wanted)
                except _OVER as error:
                    raise FencedError(repr(error)) from error
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    trouble = repr(error)
                else:
                    return
                await asyncio.sleep(_COMMIT_PAUSE_S)
    except TimeoutError as error:
        raise Retry(f"no coordinator took the commit of {sorted(wanted)} for {COMMIT_S:.0f} s: {trouble}") from error


def _make_app(settings: WorkerSettings) -> Any:
    servers = ";".join(f"kafka://{server.strip()}" for server in settings.bootstrap_servers.split(","))
    return faust.App(
        settings.group,
        broker=servers,
        # Faust wants a folder even for an app without tables; nothing is kept there.
        datadir=Path(tempfile.gettempdir()) / f"gpumeter-faust-{os.getuid()}",
        store="memory://",
        web_enabled=False,
        autodiscover=False,
        broker_session_timeout=6,
        broker_heartbeat_interval=1,
        broker_rebalance_timeout=10,
        broker_request_timeout=15,
        # While a worker reads again past Faust nothing is polled, for hours where much is; the watchdog sees who hangs.
        broker_max_poll_interval=86_400,
        stream_wait_empty=False,
        # Fetches: what is on its way when a topic is paused still comes, so it has to be little beside what is held.
        stream_buffer_maxsize=8,
        consumer_max_fetch_size=min(1 << 20, settings.held_mib << 15),
        # Without standby replicas Faust asks no assignor of ours; there are no tables to have replicas of.
        table_standby_replicas=1,
        PartitionAssignor=TogetherAssignor,
        topic_disable_leader=True,
        topic_allow_declare=False,
        broker_commit_livelock_soft_timeout=86_400,
        stream_processing_timeout=86_400,
        consumer_group_instance_id=settings.instance,
        consumer_auto_offset_reset="earliest",
        logging_config=None,
    )


def _received(message: Any) -> Received:
    headers = message.headers.items() if isinstance(message.headers, dict) else message.headers or ()
    record = LogRecord(
        offset=message.offset,
        append_us=round(message.timestamp * 1000) * 1000,
        headers=[(name, value or b"") for name, value in headers],
        payload=message.value or b"",
    )
    return Received(message.topic, message.partition, message.generation_id, record)
