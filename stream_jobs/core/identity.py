"""Joins: process to container by snapshot, container to pod by pod events, grant to pod by name as of its time.

Identity is (pid, start time) under the snapshot that the reading names, then container id and pod uid; a name only
for grants, whose source has no uid, and then only with time (tests/property/test_meter.py against a naive oracle).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.ids import HOST, POD, UNATTRIBUTED, holder_of
from schemas.limits import MAX_UNITS
from schemas.pods import ContainerRecord, PodRecord
from schemas.snapshots import CONTAINER, HOST_PROCESS, Grant, ProcessIdentity, Snapshot

FOREVER_US = 1 << 62
_NO_FLAGS = frozenset[str]()
"""One for all: an empty set of its own for each of a fleet's holders takes 100 MB."""


class Holder(NamedTuple):
    """Who holds or uses: a container of a pod, or a pseudo-holder; `spec_known` says a pod event told its requests."""

    id: str
    kind: str
    namespace: str = ""
    pod_name: str = ""
    pod_uid: str = ""
    container_name: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    requested_units: int | None = None
    flags: frozenset[str] = _NO_FLAGS


def pseudo(kind: str, *flags: str) -> Holder:
    """A pseudo-holder: host, unattributed, unallocated, unobserved."""
    return Holder(kind, kind, flags=frozenset(flags))


def _pod_holder(pod: PodRecord, container: ContainerRecord | None, container_id: str, *flags: str) -> Holder:
    owner = pod.owners[-1] if pod.owners else None
    name = container.name if container else ""
    units = min(sum(container.requests.values()), MAX_UNITS) if container else None
    return Holder(
        holder_of(pod.uid, name, container_id),
        POD,
        pod.namespace,
        pod.name,
        pod.uid,
        name,
        owner.kind if owner else "",
        owner.name if owner else "",
        units,
        frozenset(flags) if flags else _NO_FLAGS,
    )


UNKNOWN_REASONS = frozenset({"gone", "unmapped", "unreadable"})
"""What a snapshot may say of a process that it does not know (schemas/snapshots.py): the reason becomes a flag."""


@dataclass(slots=True)
class Directory:
    """The pods of a node as far as a cut shows them, looked up by each identity they have."""

    pods: list[PodRecord]
    by_container: dict[str, tuple[PodRecord, ContainerRecord]] = field(default_factory=dict)
    by_uid: dict[str, PodRecord] = field(default_factory=dict)
    by_name: dict[tuple[str, str], list[PodRecord]] = field(default_factory=dict)
    tenures_of: tuple[list[list[Grant]], Any] | None = None
    """What grants.py last made of some lists of grants and these pods, while it does not depend on when."""
    remembered: Any = None
    """What layouts.py last made of these pods, while it may serve again."""
    _of_containers: dict[str, Holder] = field(default_factory=dict)
    """Holders of the containers that were asked for, by container id."""
    _holders: dict[tuple[str, str], Holder] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pod in self.pods:
            self.by_uid[pod.uid] = pod
            if pod.config_hash:
                self.by_uid.setdefault(pod.config_hash, pod)
            self.by_name.setdefault((pod.namespace, pod.name), []).append(pod)
            for container in pod.containers:
                for run in container.runs:
                    self.by_container[run.container_id] = (pod, container)

    def holder_of_process(self, process: ProcessIdentity) -> Holder:
        """Holder of a process that a snapshot knows."""
        if process.kind == HOST_PROCESS:
            return pseudo(HOST)
        if process.kind != CONTAINER:
            return pseudo(UNATTRIBUTED, process.reason if process.reason in UNKNOWN_REASONS else "unknown_process")
        named = self._of_containers.get(process.container_id)
        if named is not None:
            return named
        known = self.by_container.get(process.container_id)
        if known:
            named = self._of_containers[process.container_id] = self._named(*known)
            return named
        pod = self.by_uid.get(process.pod_uid)
        if pod:
            return _pod_holder(pod, None, process.container_id, "container_unknown")
        if not process.pod_uid:
            return pseudo(HOST)
        return Holder(
            holder_of(process.pod_uid, "", process.container_id),
            POD,
            pod_uid=process.pod_uid,
            flags=frozenset({"pod_unknown"}),
        )

    def pod_as_of(self, namespace: str, name: str, time_us: int) -> PodRecord | None:
        """The pod that had a name at a time: alive then, else the one whose life is nearest."""
        candidates = self.by_name.get((namespace, name), [])
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        return min(candidates, key=lambda pod: (_distance_us(pod, time_us), -pod.created_us, pod.uid), default=None)

    def holder_of_grant(self, pod: PodRecord | None, namespace: str, name: str, container_name: str) -> Holder:
        """Holder of a grant whose pod was found, or one by name alone, flagged, while no event has told of it."""
        if pod is None:
            holder = f"{namespace}/{name}/{container_name}"
            return Holder(holder, POD, namespace, name, "", container_name, flags=frozenset({"pod_unknown"}))
        container = next((c for c in pod.containers if c.name == container_name), None)
        if container is None:
            named = _pod_holder(pod, ContainerRecord(name=container_name), "", "container_unknown")
            return named._replace(requested_units=None)
        return self._named(pod, container)

    def _named(self, pod: PodRecord, container: ContainerRecord) -> Holder:
        """The holder of a container that a pod event names, made once."""
        key = (pod.uid, container.name)
        known = self._holders.get(key)
        if known is None:
            known = self._holders[key] = _pod_holder(pod, container, "")
        return known


def _distance_us(pod: PodRecord, time_us: int) -> int:
    end = FOREVER_US if pod.deleted_us is None else pod.deleted_us
    if pod.created_us <= time_us < end:
        return 0
    return pod.created_us - time_us if time_us < pod.created_us else time_us - end + 1


def process_index(snapshot: Snapshot) -> dict[tuple[int, int], ProcessIdentity]:
    """Processes of a snapshot by (pid, start ticks), and by (pid, -1) where one process alone has had the pid."""
    index: dict[tuple[int, int], ProcessIdentity] = {}
    seen: set[int] = set()
    for process in snapshot.processes:
        index[process.pid, process.start_ticks] = process
        if process.pid in seen:
            index.pop((process.pid, -1), None)
        else:
            index[process.pid, -1] = process
        seen.add(process.pid)
    return index
