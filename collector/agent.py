"""The node agent: one loop, three cadences, one order of effects.

A snapshot goes out before the first reading that names it. A broker that is away never delays a reading; a kubelet
at most by its timeout, well within the driver's ring. A clock that was set begins a new epoch: sequences, snapshots
and spans start anew, so no promise of the old time binds the new. Decides nothing about values: sampling.py and
identity.py do. Tested in tests/unit/collector/test_agent.py.
"""

import logging
from typing import NamedTuple

from schemas.headers import READING, SNAPSHOT, Headers
from schemas.names import GPU_SAMPLES, POD_MAPPINGS
from schemas.samples import CLOCK_STEP
from schemas.snapshots import encode_snapshot

from .answers import DRIVER_NOT_LOADED, SUCCESS, DeviceAnswer
from .clock import Clock, StepDetector
from .driver import Driver
from .encode import Reading, encode_readings
from .errors import Retry, Stop
from .grants import AGAIN_US, OK, Grants
from .identity import Snapshots
from .metrics import AgentMetrics
from .publish import Outlet
from .roster import Roster
from .sampling import DeviceState, complete_to, last_seen, read_devices
from .settings import AgentSettings

logger = logging.getLogger(__name__)
FIRST_WAIT_US, LONGEST_WAIT_US = 1_000_000, 60_000_000


class Sources(NamedTuple):
    """Where the agent looks."""

    driver: Driver
    roster: Roster
    grants: Grants
    boot_id: str


class _Epoch:
    """What starts anew with the agent and with every step of the wall clock."""

    def __init__(self, start_us: int, snapshot_period_us: int, flags: int) -> None:
        self.start_us = start_us
        self.flags = flags
        self.seq: dict[str, int] = {}
        self.states: dict[str, DeviceState] = {}
        self.snapshots = Snapshots(snapshot_period_us)


class Agent:
    """One node's agent; single-threaded but for the producer's own threads."""

    def __init__(
        self, settings: AgentSettings, clock: Clock, sources: Sources, outlet: Outlet, metrics: AgentMetrics
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._sources = sources
        self._outlet = outlet
        self._metrics = metrics
        self._steps = StepDetector(clock)
        self._batch: list[Reading] = []
        self._batch_due_us = 0
        self._driver_away_since_us: int | None = None
        self._driver_wait_us = FIRST_WAIT_US
        self._epoch = self._new_epoch(0)

    def run(self) -> None:
        """Reads and sends until the clock says stop; Retry where the last messages were not acknowledged."""
        watch_us = grants_us = reading_us = self._clock.monotonic_us()
        settings = self._settings
        try:
            while self._clock.wait_until_us(min(watch_us, grants_us, reading_us)):
                now_us = self._clock.monotonic_us()
                self._metrics.turned(now_us)
                new_containers = 0
                if now_us >= watch_us:
                    new_containers = self._sources.roster.watch(now_us)
                    watch_us = _after(watch_us, settings.cgroup_period_us, now_us)
                if now_us >= grants_us or new_containers:
                    grants_us = self._ask_grants(now_us, new_containers)
                if now_us >= reading_us:
                    reading_us = _after(reading_us, self._read_and_send(), now_us)
                self._outlet.poll()
            self.flush()
        finally:
            self._sources.driver.close()

    def flush(self) -> None:
        """Sends what is gathered and waits until all is acknowledged; Retry where it is not."""
        self._send_batch()
        self._outlet.flush(self._settings.flush_timeout_us / 1e6)

    def take_reading(self) -> list[Reading]:
        """One reading of every device, its snapshot sent before; Retry where no device was ever seen."""
        if self._steps.stepped():
            self._send_batch()
            self._epoch = self._new_epoch(CLOCK_STEP)
            logger.warning("the wall clock was set: new epoch %d", self._epoch.start_us)
        epoch = self._epoch
        answers = self._sources.driver.read(last_seen(epoch.states))
        # After the calls, lest the newest samples are later than the reading that has them.
        event_us, now_us = self._clock.event_us(), self._clock.monotonic_us()
        devices, epoch.states = read_devices(epoch.states, answers, event_us, epoch.flags)
        epoch.flags = 0
        named = self._sources.roster.identify(devices, now_us, self._steps.offset_us)
        self._send_snapshot(event_us, now_us)
        self._count(answers)
        self._metrics.refused_rows += sum(device.dropped_rows for device in devices)
        mapping_seq = self._epoch.snapshots.mapping_seq
        return [Reading(mapping_seq, device, rows) for device, rows in zip(devices, named, strict=True)]

    def _ask_grants(self, now_us: int, new_containers: int) -> int:
        """Asks the kubelet and sends a snapshot where that changed something; when to ask again.

        A new pod may be listed without its devices at first, so after a new container it is asked again soon.
        """
        grants = self._sources.grants
        next_us = grants.ask(now_us)
        self._metrics.grants_known = grants.status == OK
        if self._epoch.states:
            self._send_snapshot(self._clock.event_us(), now_us)
        return min(next_us, now_us + AGAIN_US) if new_containers else next_us

    def _read_and_send(self) -> int:
        """One reading, sent where its batch is due; microseconds to the next."""
        begin_us = self._clock.monotonic_us()
        try:
            readings = self.take_reading()
        except Retry as error:
            return self._wait_for_driver(error)
        self._driver_wait_us = FIRST_WAIT_US
        now_us = self._clock.monotonic_us()
        self._metrics.readings += 1
        self._metrics.reading_us += now_us - begin_us
        if not self._batch:
            self._batch_due_us = now_us + self._settings.flush_period_us
        self._batch += readings
        if now_us + self._settings.nvml_period_us >= self._batch_due_us:
            self._send_batch()
        return self._settings.nvml_period_us

    def _wait_for_driver(self, error: Retry) -> int:
        logger.warning("%s; asked again in %d s", error, self._driver_wait_us // 1_000_000)
        self._metrics.driver_ready = False
        self._give_up_on_driver()
        wait_us, self._driver_wait_us = self._driver_wait_us, min(2 * self._driver_wait_us, LONGEST_WAIT_US)
        return wait_us

    def _give_up_on_driver(self) -> None:
        """Stop where the driver has been away so long that only a new process maps the new library."""
        now_us = self._clock.monotonic_us()
        since_us = self._driver_away_since_us = self._driver_away_since_us or now_us
        if now_us - since_us > self._settings.driver_wait_us:
            raise Stop(f"the driver has not been loaded for {(now_us - since_us) // 1_000_000} s", 3)

    def _count(self, answers: list[DeviceAnswer]) -> None:
        for answer in answers:
            for call, code in zip(("samples", "processes", "lists", "energy"), answer.statuses(), strict=True):
                if code != SUCCESS:
                    self._metrics.answers[call, code] += 1
        loaded = not answers or any(answer.samples_status != DRIVER_NOT_LOADED for answer in answers)
        self._metrics.driver_ready = loaded
        if loaded:
            self._driver_away_since_us = None
        else:
            self._give_up_on_driver()

    def _new_epoch(self, flags: int) -> _Epoch:
        return _Epoch(self._clock.monotonic_us(), self._settings.snapshot_period_us, flags)

    def _send_snapshot(self, event_us: int, now_us: int) -> None:
        grants = self._sources.grants
        snapshot = self._epoch.snapshots.next(
            self._sources.roster.named(now_us), grants.grants, grants.slots, grants.status, event_us
        )
        if snapshot is None:
            return
        self._metrics.snapshots += 1
        if not self._send(POD_MAPPINGS, SNAPSHOT, encode_snapshot(snapshot), 0):
            self._epoch.snapshots.lost()

    def _send_batch(self) -> None:
        if self._batch:
            self._send(GPU_SAMPLES, READING, encode_readings(self._batch), complete_to(self._epoch.states))
            self._batch = []

    def _send(self, topic: str, record: str, payload: bytes, complete_to_us: int) -> bool:
        seq = self._epoch.seq[topic] = self._epoch.seq.get(topic, 0) + 1
        headers = Headers(
            record=record,
            cluster=self._settings.cluster,
            node=self._settings.node,
            boot_id=self._sources.boot_id,
            epoch_us=self._epoch.start_us,
            seq=seq,
            complete_to_us=complete_to_us,
        )
        return self._outlet.produce(topic, self._settings.node, headers, payload)


def _after(due_us: int, period_us: int, now_us: int) -> int:
    """Next time of a cadence; one that was missed is not made up for."""
    return due_us + period_us if due_us + period_us > now_us else now_us + period_us
