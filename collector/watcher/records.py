"""Cumulative records of pods and nodes: what was seen before, and what the API server says now, become one.

Pure. The API server remembers only the last run of a container, so runs seen once are kept here. Laws: seeing an
object twice changes nothing; a told end replaces an inferred one; runs of a container do not overlap, and only the
oldest of very many are forgotten (tests/unit/collector/test_watcher_records.py,
tests/property/test_watcher_restarts.py).
"""

from collections.abc import Iterable, Iterator

import msgspec

from schemas.pods import ContainerRecord, NodeRecord, Owner, PodRecord, Run

from .api_objects import (
    ContainerSpec,
    ContainerStatus,
    Node,
    OwnerReference,
    Pod,
    container_id,
    gpu_quantities,
    time_us,
)

CONFIG_HASH = "kubernetes.io/config.hash"
TEMPLATE_HASH = "pod-template-hash"
ENDED_PHASES = ("Succeeded", "Failed")
MOST_RUNS = 500
"""Newest runs of a container that its record keeps: a pod that crashes every minute for weeks outgrows no message, and
8 hours of it are far more than the meter reads back."""


def pod_record(before: PodRecord | None, pod: Pod, seen_us: int) -> PodRecord:
    """The pod's record with what it says now; `seen_us` stays where nothing changed."""
    meta = pod.metadata
    annotations = meta.annotations or {}
    labels = meta.labels or {}
    known = {container.name: container.runs for container in before.containers} if before else {}
    record = PodRecord(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        node=pod.spec.node_name,
        phase=pod.status.phase,
        created_us=time_us(meta.creation_timestamp) or 0,
        deleted_us=before.deleted_us if before else None,
        config_hash=annotations.get(CONFIG_HASH, ""),
        owners=owners(meta.owner_references or (), labels),
        labels=labels,
        containers=list(_containers(pod, known, seen_us)),
        seen_us=before.seen_us if before else seen_us,
    )
    return record if record == before else msgspec.structs.replace(record, seen_us=seen_us)


def node_record(before: NodeRecord | None, node: Node, seen_us: int) -> NodeRecord:
    """The node's record as of now; `seen_us` stays where nothing changed. A node that came back is not deleted."""
    record = NodeRecord(
        name=node.metadata.name,
        labels=node.metadata.labels or {},
        capacity=gpu_quantities(node.status.capacity),
        created_us=time_us(node.metadata.creation_timestamp) or 0,
        seen_us=before.seen_us if before else seen_us,
    )
    return record if record == before else msgspec.structs.replace(record, seen_us=seen_us)


def owners(references: Iterable[OwnerReference], labels: dict[str, str]) -> list[Owner]:
    """Owner chain, top last: the controller and, of a ReplicaSet named after a template hash, its Deployment.

    The Deployment controller names a ReplicaSet `<deployment>-<hash>` and labels its pods with that hash, so the
    pair proves the name without a look-up.
    """
    chain = [Owner(kind=owner.kind, name=owner.name, uid=owner.uid) for owner in references if owner.controller]
    suffix = "-" + labels.get(TEMPLATE_HASH, "-")
    if chain and chain[0].kind == "ReplicaSet" and chain[0].name.endswith(suffix):
        chain.append(Owner(kind="Deployment", name=chain[0].name.removesuffix(suffix)))
    return chain


def _containers(pod: Pod, known: dict[str, list[Run]], seen_us: int) -> Iterator[ContainerRecord]:
    ended = pod.status.phase in ENDED_PHASES
    told = (pod.status.container_statuses, pod.status.init_container_statuses, pod.status.ephemeral_container_statuses)
    statuses = {status.name: status for some in told for status in some or ()}
    for kind, spec in _specs(pod):
        status = statuses.get(spec.name)
        resources = spec.resources
        yield ContainerRecord(
            name=spec.name,
            kind=kind,
            requests=gpu_quantities(resources.requests, resources.limits) if resources else {},
            runs=merged_runs(known.get(spec.name, []), status, seen_us if ended or _is_lost(status) else None),
        )


def _specs(pod: Pod) -> Iterator[tuple[str, ContainerSpec]]:
    for spec in pod.spec.init_containers or ():
        yield ("sidecar" if spec.restart_policy == "Always" else "init"), spec
    for spec in pod.spec.containers or ():
        yield "main", spec
    for spec in pod.spec.ephemeral_containers or ():
        yield "ephemeral", spec


def _is_lost(status: ContainerStatus | None) -> bool:
    """Whether the kubelet says that the container ended and does not know when (ContainerStatusUnknown)."""
    terminated = status.state.terminated if status and status.state else None
    return terminated is not None and terminated.finished_at is None


def merged_runs(known: Iterable[Run], status: ContainerStatus | None, ended_by_us: int | None) -> list[Run]:
    """Runs of a container, oldest first: those known and those the status tells, at most the newest MOST_RUNS.

    An end that nobody told is set at the latest it can have been: the start of the next run, or `ended_by_us` where
    the container is known to have ended.
    """
    runs = {run.container_id: run for run in known}
    for run in _told_runs(status):
        before = runs.get(run.container_id)
        if before is None or run.finished_us is not None or before.finished_us is None:
            runs[run.container_id] = run
    ordered = sorted(runs.values(), key=lambda run: (run.started_us, run.container_id))[-MOST_RUNS:]
    bounds = [run.started_us for run in ordered[1:]] + [ended_by_us]
    return [
        run
        if run.finished_us is not None or bound is None
        else msgspec.structs.replace(run, finished_us=max(run.started_us, bound))
        for run, bound in zip(ordered, bounds, strict=False)
    ]


def _told_runs(status: ContainerStatus | None) -> Iterator[Run]:
    if status is None:
        return
    for state in (status.last_state, status.state):
        if state and state.terminated:
            identity = container_id(state.terminated.container_id)
            finished_us = time_us(state.terminated.finished_at)
            # A container that could not start is told to have started in 1970: it ran no time at all.
            started_us = time_us(state.terminated.started_at) or finished_us
            if identity and started_us and finished_us:
                yield Run(container_id=identity, started_us=started_us, finished_us=max(started_us, finished_us))
        elif state and state.running:
            identity, started_us = container_id(status.container_id), time_us(state.running.started_at)
            if identity and started_us:
                yield Run(container_id=identity, started_us=started_us)
