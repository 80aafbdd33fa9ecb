"""The worker: takes messages from Faust, meters them partition by partition, publishes, keeps its place in the log.

Composition root of the streaming job; owns the rounds and how the process ends. Any error ends the process with its
reason and exit code: a restart goes on from the committed progress. Laws: output acknowledged, then progress written,
then committed; no two copies of a row differ, whatever kills it (tests/integration/test_worker.py).
"""

import asyncio
import os
from typing import Any

from schemas.names import GPU_SAMPLES

from . import log
from .clock import monotonic_s
from .core.carry import Progress
from .errors import Retry, Stop, exit_code
from .faust_app import Committed, FaustShell, FencedError
from .lane import Gap, Lane, Received, open_lane
from .log_reader import read_progress, topic_ids
from .metrics import serve
from .progress import decode_pointer, encode_pointer
from .publish import Publisher
from .rounds import meter_round, write_progress
from .settings import WorkerSettings

_SILENCE_S = 20.0
"""Where the log has records and none of them comes for this long, reading has died within the process."""
_UNSETTLED_S = 60.0
"""A rebalance takes seconds; a process that is in none and still has no assignment is stuck."""
_LONGEST_STEP_S = 1.0
"""Of a longer pause between two looks (a frozen process) no more is counted as silence."""


class Worker:
    """One worker process; `run` returns its exit code."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._log = log.logger("worker")
        self._meter_settings = settings.meter()
        self._topic_ids = topic_ids(settings.bootstrap_servers)
        self._publisher = Publisher(settings.bootstrap_servers, f"{settings.group}-worker")
        self._buffer: list[Received] = []
        self._room = asyncio.Event()
        self._lanes: dict[int, Lane] = {}
        self._unsettled_s = 0.0
        self._looked_at_s = monotonic_s()
        self._status_at_s = 0.0
        self._shell = FaustShell(settings, self._receive, self._loop)

    def run(self) -> int:
        """Meters until SIGTERM or SIGINT (0); ends the process itself on any error."""
        self._log.info("start", settings=self._settings.shown())
        if self._settings.metrics_port:
            serve(self._settings.metrics_port, "gpumeter_worker", self._numbers)
        code = self._shell.run()
        self._log.info("end", code=code)
        return code

    async def _receive(self, message: Received) -> None:
        self._buffer.append(message)
        if len(self._buffer) >= self._settings.buffer_messages:
            self._room.clear()
            await self._room.wait()

    async def _loop(self) -> None:
        try:
            while True:
                began_s = monotonic_s()
                await self._round()
                self._report()
                await asyncio.sleep(max(0.0, began_s + self._settings.step_s - monotonic_s()))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 whatever it is, going on could lose records: the process ends
            self._die(error)

    async def _round(self) -> None:
        messages, self._buffer = self._buffer, []
        self._room.set()
        step_s, self._looked_at_s = monotonic_s() - self._looked_at_s, monotonic_s()
        step_s = min(step_s, _LONGEST_STEP_S)
        if not self._shell.is_settled:
            # What was read so far comes again: each lane that is opened seeks to where it begins.
            self._lanes.clear()
            self._require_settling(step_s)
            return
        self._unsettled_s = 0.0
        generation = self._shell.generation
        await self._take_up(generation)
        by_partition: dict[int, list[Received]] = {}
        for message in messages:
            if message.generation == generation and message.partition in self._lanes:
                by_partition.setdefault(message.partition, []).append(message)
        for partition, own in by_partition.items():
            await asyncio.to_thread(meter_round, self._lanes[partition], own, self._publisher)
        if by_partition:
            await asyncio.to_thread(self._publisher.flush)
        await self._check_silence(step_s)
        await self._save_due()

    def _require_settling(self, step_s: float) -> None:
        self._unsettled_s += step_s
        if self._unsettled_s > _UNSETTLED_S:
            raise Retry(f"no assignment for {_UNSETTLED_S:.0f} s; a restart joins the group anew")

    async def _take_up(self, generation: int) -> None:
        """Drops lanes of an earlier generation; opens one for each partition that has none."""
        self._lanes = {p: lane for p, lane in self._lanes.items() if lane.generation == generation}
        for partition in self._shell.partitions():
            if partition not in self._lanes:
                try:
                    lane = await self._open(partition, generation)
                    await self._shell.seek(partition, lane.expected)
                except FencedError as error:
                    self._log.warning("partition lost", partition=partition, reason=str(error))
                else:
                    self._lanes[partition] = lane

    async def _open(self, partition: int, generation: int) -> Lane:
        committed = await self._shell.committed(partition)
        progress = await self._progress_of(partition, committed)
        begin = progress or await self._shell.log_starts(partition)
        lane = open_lane(partition, generation, self._meter_settings, self._topic_ids[GPU_SAMPLES], begin)
        lane.saved_at_s = monotonic_s()
        self._log.info(
            "partition opened",
            partition=partition,
            generation=generation,
            resumed=progress is not None,
            offsets=lane.expected,
        )
        return lane

    async def _progress_of(self, partition: int, committed: Committed) -> Progress | None:
        """The progress that the commit points to; None for a group that never committed here."""
        if not committed:
            return None
        pointers = {metadata for _, metadata in committed.values()}
        if len(pointers) != 1:
            raise Stop(f"partition {partition}: the three topics' commits name different progress records: {committed}")
        pointer = decode_pointer(pointers.pop())
        servers = self._settings.bootstrap_servers
        progress = await asyncio.to_thread(read_progress, servers, partition, pointer)
        if progress.offsets != {topic: offset for topic, (offset, _) in committed.items()}:
            raise Stop(f"partition {partition}: progress says {progress.offsets}, the commit says {committed}")
        return progress

    async def _save_due(self) -> None:
        """Writes and commits the progress of lanes whose time has come; drops a lane that lost its partition."""
        for partition, lane in list(self._lanes.items()):
            if monotonic_s() - lane.saved_at_s < self._settings.progress_s:
                continue
            lane.saved_at_s = monotonic_s()
            saved = await asyncio.to_thread(lane.unsaved)
            if saved is None:
                continue
            pointer = await asyncio.to_thread(write_progress, lane, saved, self._publisher, self._settings.group)
            try:
                await self._shell.commit(lane.generation, partition, saved.progress.offsets, encode_pointer(pointer))
            except FencedError as error:
                self._log.warning("partition lost", partition=partition, reason=str(error))
                self._lanes.pop(partition, None)
            else:
                if not lane.committed:
                    self._log.info("progress committed", partition=partition, offsets=saved.progress.offsets)
                lane.committed = True

    async def _check_silence(self, step_s: float) -> None:
        """Ends the process where records are gone, or where the log has some and they do not come."""
        for lane in self._lanes.values():
            for gap in lane.gaps.values():
                await self._require_whole_log(gap)
            lane.silent_s = {topic: silent_s + step_s for topic, silent_s in lane.silent_s.items()}
            silent = [topic for topic, silent_s in lane.silent_s.items() if silent_s > _SILENCE_S]
            if not silent:
                continue
            ends = await self._shell.log_ends(lane.partition)
            for topic in silent:
                if ends[topic] > lane.expected[topic]:
                    raise Retry(
                        f"{topic}/{lane.partition}: the log ends at {ends[topic]}, offset {lane.expected[topic]} did "
                        f"not come for {_SILENCE_S:.0f} s; a restart reads on from the committed place"
                    )
                lane.silent_s[topic] = 0.0

    async def _require_whole_log(self, gap: Gap) -> None:
        start = (await self._shell.log_starts(gap.partition))[gap.topic]
        if start > gap.expected:
            raise Stop(
                f"{gap}; the log now starts at {start}: records were deleted before they were metered "
                "(log_truncated). Their time would be missing without a word, so nothing goes on; delete the consumer "
                "group to begin anew"
            )

    def _numbers(self) -> dict[int, dict[str, Any]]:
        return {partition: dict(lane.meter.metrics()) for partition, lane in list(self._lanes.items())}

    def _report(self) -> None:
        if monotonic_s() - self._status_at_s >= self._settings.status_s:
            self._status_at_s = monotonic_s()
            self._log.info("status", generation=self._shell.generation, partitions=self._numbers())

    def _die(self, error: BaseException) -> None:
        code = exit_code(error)
        self._log.error("stopped", reason=f"{type(error).__name__}: {error}", code=code, exc_info=error)
        log.flush()
        # Not sys.exit: Faust would go on shutting down in peace and may commit nothing more, but must not linger.
        os._exit(code)
