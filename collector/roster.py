"""Who each process of a reading is: containers watched every second, /proc asked for the rest.

Joins the shells of cgroups and /proc with the pure cache of identities. Law: a row without a living process is a row
with the reason, never a lost one (tests/unit/collector/test_roster.py).
"""

from collections.abc import Sequence

from schemas.snapshots import UNKNOWN_PROCESS, ProcessIdentity
from schemas.units import ABSENT, US_PER_SECOND

from .cgroup import identity_of
from .containers import Containers
from .encode import IdentifiedProcess
from .identity import TOLERANCE_US, Identities, identified
from .procfs import TICKS_PER_SECOND, ProcFs
from .sampling import DeviceReading, ProcessRow

GONE, UNMAPPED, UNREADABLE = "gone", "unmapped", "unreadable"
_US_PER_TICK = US_PER_SECOND // TICKS_PER_SECOND


class Roster:
    """Processes of the node by (pid, start time); times are of the boot-time clock unless said otherwise."""

    def __init__(self, proc: ProcFs, containers: Containers) -> None:
        self._proc = proc
        self._containers = containers
        self._identities = Identities()

    def watch(self, now_us: int) -> int:
        """Notes the containers' processes; the number of containers that are new."""
        changes = self._containers.scan()
        for pid in changes.left:
            self._identities.leave(pid, now_us)
        for pid, cgroup in changes.arrived:
            start_ticks = self._proc.start_ticks(pid)
            if start_ticks is not None:
                self._identities.learn(identified(pid, start_ticks, cgroup), now_us, in_container=True)
        return changes.new_containers

    def identify(
        self, readings: Sequence[DeviceReading], now_us: int, boot_event_us: int
    ) -> list[list[IdentifiedProcess]]:
        """Every process row with its start time; `boot_event_us` is the event time of boot."""
        pids = {row.pid for reading in readings for row in reading.processes}
        living = {pid: self._proc.start_ticks(pid) for pid in pids}
        return [
            [one for row in reading.processes for one in self._lives(row, living[row.pid], now_us, boot_event_us)]
            for reading in readings
        ]

    def named(self, now_us: int) -> list[ProcessIdentity]:
        """Processes that readings of the last minute name."""
        return self._identities.named(now_us)

    def _lives(self, row: ProcessRow, living: int | None, now_us: int, boot_event_us: int) -> list[IdentifiedProcess]:
        """The process a row speaks of; two where the pid was used again after the samples that named it."""
        if living is None:
            return [self._gone(row, None, now_us)]
        used_again = row.seen_us and boot_event_us + living * _US_PER_TICK > row.seen_us + TOLERANCE_US
        if not used_again:
            return [self._alive(row, living, now_us)]
        before = row._replace(memory_bytes=ABSENT, lists=0, gpu_instance_id=ABSENT, compute_instance_id=ABSENT)
        lives = [self._gone(before, living, now_us)]
        if row.lists:
            now = row._replace(seen_us=0, sm_points=ABSENT, mem_points=ABSENT, enc_points=ABSENT, dec_points=ABSENT)
            lives.append(self._alive(now, living, now_us))
        return lives

    def _alive(self, row: ProcessRow, start_ticks: int, now_us: int) -> IdentifiedProcess:
        if not self._identities.knows(row.pid, start_ticks):
            self._identities.learn(self._look_up(row.pid, start_ticks), now_us)
        self._identities.name(row.pid, start_ticks, now_us)
        return IdentifiedProcess(start_ticks, row)

    def _gone(self, row: ProcessRow, before_ticks: int | None, now_us: int) -> IdentifiedProcess:
        """A row whose process is not in /proc: known from before, or unknown with the reason."""
        start_ticks = self._identities.start_before(row.pid, before_ticks)
        if start_ticks == ABSENT:
            reason = UNMAPPED if row.lists else GONE
            unknown = ProcessIdentity(pid=row.pid, start_ticks=ABSENT, kind=UNKNOWN_PROCESS, reason=reason)
            self._identities.learn(unknown, now_us)
        self._identities.name(row.pid, start_ticks, now_us)
        return IdentifiedProcess(start_ticks, row)

    def _look_up(self, pid: int, start_ticks: int) -> ProcessIdentity:
        """Identity by its cgroup; the start time is read again, since the pid may have been used anew meanwhile."""
        try:
            text = self._proc.cgroup(pid)
        except PermissionError:
            return ProcessIdentity(pid=pid, start_ticks=start_ticks, kind=UNKNOWN_PROCESS, reason=UNREADABLE)
        if text is None or self._proc.start_ticks(pid) != start_ticks:
            return ProcessIdentity(pid=pid, start_ticks=start_ticks, kind=UNKNOWN_PROCESS, reason=GONE)
        return identified(pid, start_ticks, identity_of(text))
