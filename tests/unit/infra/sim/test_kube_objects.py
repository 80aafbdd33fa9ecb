"""Objects of the simulated API server: what a pod looks like over its life."""

from typing import Any

from infra.sim.kube_objects import changes, node_object, pod_object, rfc3339
from infra.sim.model import SimCluster, SimContainer, SimGpu, SimNode, SimPod

S = 1_000_000
GPU = SimGpu("GPU-a", 0, "NVIDIA H200", 141 << 30, 4)


def _run(name: str, identity: str, start: int, end: int | None, kind: str = "main") -> SimContainer:
    return SimContainer(name, identity * 64, start * S, None if end is None else end * S, kind, {"nvidia.com/gpu": 1})


LIVES = (_run("main", "a", 4, 20), _run("main", "b", 25, 40), _run("main", "c", 45, None))
RESTARTED = SimPod(
    "u",
    "team",
    "web-5d9-abc",
    "n1",
    1 * S,
    90 * S,
    (
        _run("setup", "0", 2, 3, "init"),
        _run("main", "a", 4, 20),
        _run("main", "b", 25, 40),
        _run("main", "c", 45, None),
    ),
    "ReplicaSet",
    "web-5d9",
    {"pod-template-hash": "5d9"},
)


def _main(now_s: float) -> dict[str, Any]:
    status = pod_object(RESTARTED, round(now_s * S))["status"]
    return dict(status["containerStatuses"][0])


def test_pod_tells_its_present_run_and_the_one_before() -> None:
    """Waiting, running, ended and running again are told as the kubelet tells them, with one state before."""
    assert "waiting" in _main(3)["state"]
    assert _main(10)["state"] == {"running": {"startedAt": "1970-01-01T00:00:04Z"}}
    assert _main(22)["state"]["terminated"]["containerID"] == "containerd://" + "a" * 64
    third = _main(50)
    assert third["containerID"] == "containerd://" + "c" * 64
    assert third["restartCount"] == 2
    assert third["lastState"]["terminated"]["finishedAt"] == "1970-01-01T00:00:40Z"


def test_pod_has_a_phase_for_each_time_of_its_life() -> None:
    """Pending before the first main run, Running in it and between runs, Succeeded at the end."""
    phases = [pod_object(RESTARTED, now * S)["status"]["phase"] for now in (2, 4, 22, 50, 90)]
    assert phases == ["Pending", "Running", "Running", "Running", "Succeeded"]


def test_deleted_pod_ends_what_it_still_ran() -> None:
    """At its deletion a pod has a deletion time and no running container."""
    last = pod_object(RESTARTED, 90 * S)
    assert last["metadata"]["deletionTimestamp"] == "1970-01-01T00:01:30Z"
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == "1970-01-01T00:01:30Z"


def test_changes_tell_a_life_in_order() -> None:
    """A pod is added without a node, placed, changed at each start and end, marked and deleted; the node goes last."""
    node = SimNode("n1", 0, "boot", (GPU,))
    told = changes(SimCluster("c", 0, 100 * S, (node,), (RESTARTED,)))
    seen = [(change.time_us // S, change.type, change.resource) for change in told]
    middle = [(t, "MODIFIED", "pods") for t in (2, 3, 4, 20, 25, 40, 45)]
    first = [(0, "ADDED", "nodes"), (1, "ADDED", "pods"), (1, "MODIFIED", "pods")]
    last = [(90, "MODIFIED", "pods"), (90, "DELETED", "pods"), (100, "DELETED", "nodes")]
    assert seen == first + middle + last
    assert "nodeName" not in told[1].content["spec"]
    assert told[2].content["spec"]["nodeName"] == "n1"


def test_node_has_the_labels_of_feature_discovery() -> None:
    """Product, count, replicas and sharing are labels; the capacity counts every replica."""
    content = node_object(SimNode("n1", 0, "boot", (GPU, GPU), labels={"zone": "a"}))
    labels = content["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H200-SHARED"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.replicas"], labels["zone"]) == ("2", "4", "a")
    assert content["status"]["capacity"]["nvidia.com/gpu"] == "8"


def test_times_are_whole_seconds() -> None:
    """Fractions of a second are cut, as Kubernetes does."""
    assert rfc3339(1_999_999) == "1970-01-01T00:00:01Z"
