"""Pods and nodes of the simulated cluster as the API server would show them, and when each of them changes.

Pure: a pod's object is a function of the facts and a time. Must not know HTTP or who asks. Laws: times have the
resolution of one second; a container tells its present run and the one before, no more; what a pod still runs when it
is deleted ends then (tests/unit/infra/sim/test_kube_objects.py).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from infra.sim.model import SimCluster, SimContainer, SimNode, SimPod

Json = dict[str, Any]
PODS, NODES = "pods", "nodes"


class Change(NamedTuple):
    """What the API server does at a time: ADDED, MODIFIED or DELETED an object."""

    time_us: int
    type: str
    resource: str
    content: Json


def rfc3339(time_us: int) -> str:
    """A time as Kubernetes writes it, in whole seconds."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_object(node: SimNode) -> Json:
    """The node, with the labels that GPU feature discovery would give it."""
    slots = sum(gpu.slots for gpu in node.gpus)
    found: dict[str, str] = {}
    if node.gpus:
        first = node.gpus[0]
        found = {
            "nvidia.com/gpu.product": first.model.replace(" ", "-") + ("-SHARED" if first.slots > 1 else ""),
            "nvidia.com/gpu.count": str(len(node.gpus)),
            "nvidia.com/gpu.replicas": str(first.slots),
            "nvidia.com/gpu.sharing-strategy": "time-slicing" if first.slots > 1 else "none",
            "nvidia.com/gpu.memory": str(first.memory_total_bytes >> 20),
            "nvidia.com/mig.capable": "false",
        }
    capacity = {"cpu": "64", "memory": "1056270112Ki", "pods": "110"} | ({node.resource: str(slots)} if slots else {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": f"node-{node.name}",
            "creationTimestamp": rfc3339(node.boot_us),
            "labels": {"kubernetes.io/hostname": node.name, **found, **node.labels},
        },
        "status": {"capacity": capacity, "allocatable": capacity, "nodeInfo": {"bootID": node.boot_id}},
    }


def pod_object(pod: SimPod, now_us: int, *, bound: bool = True) -> Json:
    """The pod as of now; not `bound`: the scheduler has not placed it yet."""
    deleting = pod.deleted_us is not None and now_us >= pod.deleted_us
    runs = [run for run in pod.containers if run.started_us <= now_us]
    meta: Json = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "creationTimestamp": rfc3339(pod.created_us),
        "labels": dict(pod.labels),
        "annotations": {"kubernetes.io/config.source": "api"},
        "managedFields": [{"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
    }
    if pod.owner_kind:
        owner = {
            "apiVersion": "apps/v1",
            "kind": pod.owner_kind,
            "name": pod.owner_name,
            "uid": f"uid-{pod.owner_name}",
        }
        meta["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    if deleting and pod.deleted_us is not None:
        meta |= {"deletionTimestamp": rfc3339(pod.deleted_us), "deletionGracePeriodSeconds": 30}
    mains = list(_latest(pod.containers, ("main",)).values())
    inits = list(_latest(pod.containers, ("init", "sidecar")).values())
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "containers": [_container_spec(run) for run in mains],
            "initContainers": [_container_spec(run) for run in inits],
            "restartPolicy": "Always" if pod.owner_kind in ("ReplicaSet", "StatefulSet", "DaemonSet") else "OnFailure",
            "schedulerName": "default-scheduler",
            **({"nodeName": pod.node} if bound else {}),
        },
        "status": {
            "phase": _phase(pod, runs, now_us),
            "qosClass": "Burstable",
            "containerStatuses": [_status(pod, run.name, now_us) for run in mains] if bound else [],
            "initContainerStatuses": [_status(pod, run.name, now_us) for run in inits] if bound else [],
        },
    }


def _latest(containers: tuple[SimContainer, ...], kinds: tuple[str, ...]) -> dict[str, SimContainer]:
    return {run.name: run for run in containers if run.kind in kinds}


def _container_spec(run: SimContainer) -> Json:
    gpus = {name: str(amount) for name, amount in run.requests.items()}
    spec: Json = {"name": run.name, "image": f"registry.example/{run.name}:1", "imagePullPolicy": "IfNotPresent"}
    spec["resources"] = {"requests": {"cpu": "500m", "memory": "1Gi", **gpus}, "limits": {"memory": "2Gi", **gpus}}
    return spec | ({"restartPolicy": "Always"} if run.kind == "sidecar" else {})


def _end_us(pod: SimPod, run: SimContainer) -> int | None:
    ends = [end for end in (run.finished_us, pod.deleted_us) if end is not None]
    return min(ends, default=None)


def _phase(pod: SimPod, runs: list[SimContainer], now_us: int) -> str:
    main = [run for run in runs if run.kind == "main"]
    if not main:
        return "Pending"
    names = {run.name for run in pod.containers if run.kind == "main"}
    last = {run.name: _end_us(pod, run) for run in pod.containers if run.kind == "main"}
    return "Succeeded" if all(end is not None and end <= now_us for end in map(last.get, names)) else "Running"


def _status(pod: SimPod, name: str, now_us: int) -> Json:
    runs = [run for run in pod.containers if run.name == name and run.started_us <= now_us]
    status: Json = {"name": name, "image": f"registry.example/{name}:1", "restartCount": max(0, len(runs) - 1)}
    status |= {"ready": False, "lastState": {}, "state": {"waiting": {"reason": "ContainerCreating"}}}
    if not runs:
        return status
    status["containerID"] = f"containerd://{runs[-1].container_id}"
    status["state"] = _state(pod, runs[-1], now_us)
    status["ready"] = "running" in status["state"]
    if len(runs) > 1:
        status["lastState"] = _state(pod, runs[-2], now_us)
    return status


def _state(pod: SimPod, run: SimContainer, now_us: int) -> Json:
    end_us = _end_us(pod, run)
    started = {"startedAt": rfc3339(run.started_us)}
    if end_us is None or end_us > now_us:
        return {"running": started}
    told = {"exitCode": 0, "reason": "Completed", "finishedAt": rfc3339(end_us)}
    return {"terminated": {**told, **started, "containerID": f"containerd://{run.container_id}"}}


def changes(cluster: SimCluster) -> list[Change]:
    """Everything the API server will do, in order of time; nodes leave at the end, so nothing is metered after it."""
    found = [Change(cluster.start_us, "ADDED", NODES, node_object(node)) for node in cluster.nodes]
    found += [Change(cluster.end_us, "DELETED", NODES, node_object(node)) for node in cluster.nodes]
    for pod in cluster.pods:
        found += _pod_changes(pod)
    return sorted(found, key=lambda change: change.time_us)


def _pod_changes(pod: SimPod) -> Iterator[Change]:
    yield Change(pod.created_us, "ADDED", PODS, pod_object(pod, pod.created_us, bound=False))
    yield Change(pod.created_us, "MODIFIED", PODS, pod_object(pod, pod.created_us))
    ends = {_end_us(pod, run) for run in pod.containers} | {run.started_us for run in pod.containers}
    for time_us in sorted(time for time in ends if time is not None and time > pod.created_us):
        if pod.deleted_us is None or time_us < pod.deleted_us:
            yield Change(time_us, "MODIFIED", PODS, pod_object(pod, time_us))
    if pod.deleted_us is not None:
        last = pod_object(pod, pod.deleted_us)
        yield Change(pod.deleted_us, "MODIFIED", PODS, last)
        yield Change(pod.deleted_us, "DELETED", PODS, last)
