"""Who is who on the node: identities of processes by (pid, start time), and the numbered snapshots of them. Pure.

A process stays known for 60 s after it went, since the driver's ring names it later. Knows no /proc and no clock.
Laws: a pid that was used again never gets the old process's identity; every process that a reading names is in the
snapshot that the reading names; a snapshot's number grows by one (tests/unit/collector/test_identity.py).
"""

from collections.abc import Sequence

import msgspec

from schemas.snapshots import CONTAINER, HOST_PROCESS, DeviceSlots, Grant, ProcessIdentity, Snapshot
from schemas.units import ABSENT

from .cgroup import CgroupIdentity

KEEP_US = 60_000_000
TOLERANCE_US = 1_000_000
"""Device samples are dated by the wall clock, which may be this far from event time within a segment."""


class _Known(msgspec.Struct):
    identity: ProcessIdentity
    seen_us: int
    named_us: int | None = None
    in_container: bool = False


def identified(pid: int, start_ticks: int, cgroup: CgroupIdentity) -> ProcessIdentity:
    """Identity of a process by what its cgroup names."""
    kind = CONTAINER if cgroup.is_container else HOST_PROCESS
    return ProcessIdentity(
        pid=pid, start_ticks=start_ticks, kind=kind, pod_uid=cgroup.pod_uid, container_id=cgroup.container_id
    )


class Identities:
    """Every process known now or in the last minute."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, _Known]] = {}

    def knows(self, pid: int, start_ticks: int) -> bool:
        """Whether this very process is known."""
        return start_ticks in self._known.get(pid, ())

    def learn(self, identity: ProcessIdentity, now_us: int, *, in_container: bool = False) -> None:
        """A process seen alive now; in a container whose processes are watched it stays known until it leaves."""
        lives = self._known.setdefault(identity.pid, {})
        known = lives.get(identity.start_ticks)
        if known is None:
            lives[identity.start_ticks] = _Known(identity, now_us, in_container=in_container)
        else:
            known.seen_us = now_us
            known.in_container |= in_container
            if in_container:
                known.identity = identity

    def leave(self, pid: int, now_us: int) -> None:
        """A pid is no longer in its container."""
        for known in self._known.get(pid, {}).values():
            if known.in_container:
                known.in_container, known.seen_us = False, now_us

    def start_before(self, pid: int, start_ticks: int | None) -> int:
        """Start of the newest known process of this pid that began before `start_ticks` (None: any); -1 none."""
        starts = [s for s in self._known.get(pid, ()) if s != ABSENT and (start_ticks is None or s < start_ticks)]
        return max(starts, default=ABSENT)

    def name(self, pid: int, start_ticks: int, now_us: int) -> None:
        """A reading at `now_us` names this process, so the snapshot has to have it."""
        known = self._known[pid][start_ticks]
        known.named_us = known.seen_us = now_us

    def named(self, now_us: int) -> list[ProcessIdentity]:
        """Processes that readings of the last minute name, by pid and start; forgets what went longer ago."""
        for pid, lives in list(self._known.items()):
            for start_ticks, known in list(lives.items()):
                if not known.in_container and known.seen_us < now_us - KEEP_US:
                    del lives[start_ticks]
            if not lives:
                del self._known[pid]
        return [
            known.identity
            for _, lives in sorted(self._known.items())
            for _, known in sorted(lives.items())
            if known.named_us is not None and known.named_us >= now_us - KEEP_US
        ]


class Snapshots:
    """The series of snapshots of one epoch."""

    def __init__(self, period_us: int) -> None:
        self._period_us = period_us
        self._last: Snapshot | None = None
        self._lost = False
        self.mapping_seq = 0

    def next(
        self,
        processes: list[ProcessIdentity],
        grants: Sequence[Grant],
        slots: Sequence[DeviceSlots],
        grants_status: str,
        now_us: int,
    ) -> Snapshot | None:
        """The next snapshot, where something changed or the last is a period old; None where the last one holds."""
        last = self._last
        fresh = Snapshot(
            mapping_seq=self.mapping_seq + 1,
            taken_us=now_us,
            processes=processes,
            grants=list(grants),
            slots=list(slots),
            grants_status=grants_status,
        )
        if last is not None and not self._lost and now_us < last.taken_us + self._period_us:
            same = msgspec.structs.replace(fresh, mapping_seq=last.mapping_seq, taken_us=last.taken_us) == last
            if same:
                return None
        self._last, self._lost, self.mapping_seq = fresh, False, fresh.mapping_seq
        return fresh

    def lost(self) -> None:
        """The last snapshot could not be queued: the next reading needs another one."""
        self._lost = True
