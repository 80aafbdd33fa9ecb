"""Equal texts of records held once: a container's id is in its pod's record and with each of its processes.

Changes nothing that a record says; in a large fleet it halves what its facts take
(tests/unit/stream_jobs/core/test_sharing.py).
"""

from sys import intern

import msgspec

from schemas.pods import PodRecord
from schemas.snapshots import Grant, ProcessIdentity, Snapshot


def shared_pod(pod: PodRecord) -> PodRecord:
    """The record, its uid, names and phase shared with other records; its containers' ids are lent to processes."""
    for container in pod.containers:
        for run in container.runs:
            intern(run.container_id)
    return msgspec.structs.replace(
        pod,
        uid=intern(pod.uid),
        node=intern(pod.node),
        namespace=intern(pod.namespace),
        name=intern(pod.name),
        phase=intern(pod.phase),
    )


def shared_snapshot(snapshot: Snapshot, last: Snapshot | None) -> Snapshot:
    """The snapshot, with those of its lists that equal the last one's shared with it, and shared texts in the others.

    A list that is shared is known to be equal without looking at it.
    """
    lists = {name: getattr(last, name) for name in ("grants", "processes", "slots")} if last else {}
    shared = {name: known for name, known in lists.items() if known == getattr(snapshot, name)}
    if "processes" not in shared:
        shared["processes"] = [_shared_process(process) for process in snapshot.processes]
    if "grants" not in shared:
        shared["grants"] = [_shared_grant(grant) for grant in snapshot.grants]
    return msgspec.structs.replace(snapshot, **shared)


def _shared_grant(grant: Grant) -> Grant:
    return Grant(
        gpu_uuid=intern(grant.gpu_uuid),
        slot=intern(grant.slot),
        resource=intern(grant.resource),
        namespace=intern(grant.namespace),
        pod_name=intern(grant.pod_name),
        container_name=intern(grant.container_name),
        pod_uid=intern(grant.pod_uid),
    )


def _shared_process(process: ProcessIdentity) -> ProcessIdentity:
    return ProcessIdentity(
        pid=process.pid,
        start_ticks=process.start_ticks,
        kind=intern(process.kind),
        pod_uid=intern(process.pod_uid),
        container_id=intern(process.container_id),
        reason=intern(process.reason),
    )
