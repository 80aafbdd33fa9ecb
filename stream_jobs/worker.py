"""The worker: takes messages from Faust, meters them partition by partition, publishes, keeps its place in the log.

Composition root of the streaming job; owns the rounds and how the process ends. Any error ends the process with its
reason and exit code: a restart goes on from the committed progress. Laws: output acknowledged, then progress written,
then committed; no two copies of a row differ, whatever kills it (tests/integration/test_worker.py).
"""

import asyncio
import os

from schemas.health import Health, judge
from schemas.metrics import Values

from . import log
from .clock import monotonic_s, thread_cpu_s, wall_us
from .ending import END_S, end_in_time
from .errors import FencedError, Retry, exit_code
from .faust_app import FaustShell
from .figures import WORKER_METRICS, Moment, WorkerFigures, not_ready
from .intake import Intake
from .lane import Lane, Received
from .live_figures import LiveFigures
from .log_reader import first_offset, topic_layout
from .metrics import Page, serve
from .opening import Opener
from .part_reader import PartReader
from .progress import encode_pointer
from .publish import BestEffort, Publisher
from .rereader import Rereader
from .restraint import Restraint
from .rounds import REPAIR_S, meter_round, write_progress
from .rules import Rules
from .runtime import settle
from .settings import WorkerSettings
from .stand_in import StandIn
from .watchdog import Watchdog

_PROGRESS_S = 3.0
"""Time between two lines that say how much is still to be read again."""
_REREAD_S = 2.0
"""How long a round reads lanes again."""
_FIGURES_S, _FIGURES_SHARE, _FIGURES_MOST_S = 2.0, 50, 30.0
"""Least time between two looks at the lanes for the page, that over the processor time of a look, and the most: not at
each scrape, which comes from another thread."""


class Worker:
    """One worker process; `run` returns its exit code."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._log = log.logger("worker")
        layout = topic_layout(settings.bootstrap_servers)
        self._publisher = Publisher(settings.bootstrap_servers, f"{settings.group}-worker")
        self._parts = PartReader(settings.bootstrap_servers)
        self._best_effort = BestEffort(settings.bootstrap_servers, f"{settings.group}-live")
        self._live = LiveFigures(self._best_effort.send, settings.live_every_s, settings.live_share)
        self._intake = Intake(settings.buffer_messages, settings.buffer_mib << 20)
        self._lanes: dict[int, Lane] = {}
        self._rereaders: dict[int, Rereader] = {}
        self._status_at_s = self._figures_at_s = self._progress_at_s = 0.0
        self._figures, self._not_ready = WorkerFigures(), ["starting"]
        self._values: Values = {}
        self._turned_s = self._looked_s = monotonic_s()
        self._shell = FaustShell(settings, self._intake.receive, self._loop)
        self._rules = Rules(settings.bootstrap_servers, settings.meter(), self._log)
        self._opener = Opener(self._shell, settings.bootstrap_servers, self._rules, layout)
        self._watchdog = Watchdog(self._shell, self._log)
        key = settings.clock_key.get_secret_value().encode()
        self._clock = StandIn(self._shell, self._publisher.send, key, settings.watcher_away_s, self._log)
        skew_us = settings.skew_windows * settings.window_s * 1_000_000
        self._restraint = Restraint(self._shell, settings.held_mib << 20, skew_us, self._log)

    def run(self) -> int:
        """Meters until SIGTERM or SIGINT (0); ends the process itself on any error."""
        settle()
        self._log.info("start", settings=self._settings.shown())
        if self._settings.metrics_port:
            page = Page(WORKER_METRICS, lambda: self._values, self._health)
            serve(self._settings.metrics_address, self._settings.metrics_port, page, self._health)
        end_in_time(lambda: self._shell.is_stopping, self._give_up)
        code = self._shell.run()
        self._log.info("end", code=code)
        return code

    def _give_up(self) -> None:
        self._die(Retry(f"told to end, and not ended within {END_S:.0f} s: a broker is away"))

    async def _stand_in(self) -> None:
        """In simulated time nothing is away: who simulates writes the clock."""
        if not self._settings.simulated_time and self._clock.look(self._lanes, monotonic_s()):
            await asyncio.to_thread(self._publisher.flush)

    async def _loop(self) -> None:
        try:
            while True:
                began_s = self._turned_s = monotonic_s()
                await self._round()
                self._look()
                self._report()
                await asyncio.sleep(max(0.0, began_s + self._settings.step_s - monotonic_s()))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 whatever it is, going on could lose records: the process ends
            if self._shell.is_stopping:
                # The consumer went away under the round. Nothing is lost: what was not committed is read again.
                self._log.info("round left unfinished at the end", reason=f"{type(error).__name__}: {error}")
                return
            self._die(error)

    async def _round(self) -> None:
        messages = self._intake.take()
        step_s, self._looked_s = self._turned_s - self._looked_s, self._turned_s
        if not self._shell.is_settled:
            # What was read so far comes again: each lane that is opened sends the reader to where it begins.
            self._drop(list(self._lanes.values()))
            self._watchdog.note_unsettled(step_s)
            return
        if missing := self._shell.unassigned:
            raise Retry(f"dealt out without {', '.join(sorted(missing))}, as no broker told its partitions: join anew")
        generation, changed = self._shell.generation, await self._rules.look()
        self._drop([lane for lane in self._lanes.values() if changed or lane.generation != generation])
        # Also one without a message: the worker is ready only when it knows where each of its partitions stands.
        if new := self._shell.partitions() - self._lanes.keys():
            await self._open(sorted(new), generation)
            self._look()
        by_partition: dict[int, list[Received]] = {p: [] for p, lane in self._lanes.items() if lane.unfinished}
        for message in messages:
            lane = self._lanes.get(message.partition)
            if message.generation == generation and lane is not None and not lane.rereading:
                by_partition.setdefault(message.partition, []).append(message)
        for partition, own in by_partition.items():
            await self._find_holes(self._lanes[partition], own)
            await asyncio.to_thread(self._meter, self._lanes[partition], own)
        if by_partition:
            await asyncio.to_thread(self._publisher.flush)
        await self._reread()
        await self._restraint.look(self._lanes)
        await self._watchdog.look(self._lanes, step_s)
        await self._stand_in()
        await self._save_due()
        await asyncio.to_thread(self._live.turn, list(self._lanes.values()))

    async def _reread(self) -> None:
        """Reads lanes again for a while; one that is where it was goes on through Faust."""
        end_s = monotonic_s() + _REREAD_S
        while (again := [lane for lane in self._lanes.values() if lane.rereading]) and monotonic_s() < end_s:
            for lane in again:
                if lane.partition not in self._rereaders:
                    self._rereaders[lane.partition] = Rereader(
                        self._settings.bootstrap_servers, lane.partition, lane.generation, lane.expected, lane.reached
                    )
                reader = self._rereaders[lane.partition]
                messages = await asyncio.to_thread(reader.take)
                # Read from the log in order: what is missing between two offsets is missing in the log.
                lane.holes.update(lane.jumps(messages))
                await asyncio.to_thread(self._meter, lane, messages)
                if reader.is_done:
                    await self._end_reread(lane)
            await asyncio.to_thread(self._publisher.flush)

    async def _end_reread(self, lane: Lane) -> None:
        self._rereaders.pop(lane.partition).close()
        lane.rereading, lane.reached = False, {}
        lane.paused.clear()
        try:
            await self._shell.resume(lane.partition, lane.expected)
        except FencedError as error:
            # The next round sees that the assignment has changed.
            self._log.warning("partition lost", partition=lane.partition, reason=str(error))

    def _meter(self, lane: Lane, messages: list[Received]) -> None:
        left, violations = lane.reread_left(), lane.meter.counts["violations"]
        repair_s = REPAIR_S / max(1, len(self._lanes))
        for topic, reason, count, offset in meter_round(lane, messages, self._publisher, self._parts.read, repair_s):
            self._log.warning(
                "dead letters", topic=topic, partition=lane.partition, reason=reason, count=count, first_offset=offset
            )
        for reason in lane.counts.gone:
            self._log.error("late data could not be applied", partition=lane.partition, reason=reason)
        lane.counts.gone.clear()
        for name in lane.meter.forgotten:
            reach_s = lane.meter.settings.reach_us // 1_000_000
            self._log.warning("cluster forgotten", cluster=name, partition=lane.partition, without_clock_s=reach_s)
        lane.meter.forgotten.clear()
        if left and not lane.reread_left():
            seconds = round(monotonic_s() - lane.opened_at_s, 3)
            self._log.info("caught up", partition=lane.partition, reread_records=lane.counts.reread, seconds=seconds)
        if found := lane.meter.counts["violations"] - violations:
            self._log.error("conservation violated", partition=lane.partition, violations=found)

    def _drop(self, lanes: list[Lane]) -> None:
        self._figures.retire(lanes)
        for lane in lanes:
            del self._lanes[lane.partition]
            if lane.partition in self._rereaders:
                self._rereaders.pop(lane.partition).close()
        if lanes:
            self._log.info("partitions closed", partitions=[lane.partition for lane in lanes])

    async def _open(self, partitions: list[int], generation: int) -> None:
        began_s = monotonic_s()
        try:
            async for lane in self._opener.open(partitions, generation):
                self._lanes[lane.partition] = lane
                self._log.info(
                    "partition opened",
                    partition=lane.partition,
                    generation=generation,
                    resumed=lane.resumed,
                    offsets=lane.expected,
                    reread_records=lane.reread_left(),
                )
            left = sum(self._lanes[p].reread_left() for p in partitions)
            seconds = round(monotonic_s() - began_s, 3)
            self._log.info("all opened", partitions=partitions, reread_records=left, seconds=seconds)
        except FencedError as error:
            self._log.warning("partitions lost", partitions=partitions, reason=str(error))

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
                self._drop([lane])
            else:
                if not lane.committed:
                    self._log.info("progress committed", partition=partition, offsets=saved.progress.offsets)
                lane.committed = True

    async def _find_holes(self, lane: Lane, messages: list[Received]) -> None:
        """Lets a lane go on behind offsets that the log does not have, which is asked of the log itself."""
        for gap in lane.jumps(messages):
            servers = self._settings.bootstrap_servers
            if await asyncio.to_thread(first_offset, servers, gap.topic, gap.partition, gap.expected) == gap.found:
                self._log.warning("no message at these offsets", gap=str(gap))
                lane.holes.add(gap)

    def _look(self) -> None:
        """Notes how things stand, for scrapes and probes; who reads that it is ready finds figures that say so too."""
        there = self._shell.is_settled and self._shell.reaches_group
        reasons, now_s = not_ready(self._lanes, self._shell.partitions() if there else None), monotonic_s()
        turns = bool(reasons) != bool(self._not_ready)
        if self._settings.metrics_port and (turns or now_s >= self._figures_at_s):
            cpu_s = thread_cpu_s()
            ends = {partition: self._shell.log_ends(partition) for partition in self._lanes}
            away = {partition: self._clock.away(partition) for partition in self._lanes}
            at = Moment(ends=ends, wall_us=wall_us(), monotonic_s=now_s, buffered=len(self._intake), away=away)
            at.live.update(rows=self._live.rows, cpu_s=self._live.cpu_s, lost=self._best_effort.lost)
            self._values = self._figures.values(self._lanes.values(), at)
            pause_s = max(_FIGURES_S, _FIGURES_SHARE * (thread_cpu_s() - cpu_s))
            self._figures_at_s = now_s + min(pause_s, _FIGURES_MOST_S)
        self._not_ready = reasons

    def _health(self) -> Health:
        return judge("worker", monotonic_s() - self._turned_s, self._not_ready, self._settings.health_s)

    def _report(self) -> None:
        left = {partition: left for partition, lane in self._lanes.items() if (left := lane.reread_left())}
        if left and monotonic_s() - self._progress_at_s >= _PROGRESS_S:
            self._progress_at_s = monotonic_s()
            done = {partition: self._lanes[partition].counts.reread for partition in left}
            self._log.info("reading again", records_left=sum(left.values()), records_read=sum(done.values()), left=left)
        if monotonic_s() - self._status_at_s >= self._settings.status_s:
            self._status_at_s = monotonic_s()
            numbers = {partition: lane.meter.metrics() for partition, lane in self._lanes.items()}
            self._log.info("status", generation=self._shell.generation, not_ready=self._not_ready, partitions=numbers)

    def _die(self, error: BaseException) -> None:
        code = exit_code(error)
        self._log.error("stopped", reason=f"{type(error).__name__}: {error}", code=code, exc_info=error)
        log.flush()
        # Not sys.exit: Faust would go on shutting down in peace and may commit nothing more, but must not linger.
        os._exit(code)
