"""Cumulative records: runs, owners and deletion as the API server tells them piece by piece."""

from typing import Any

import msgspec
import pytest

from collector.watcher.api_objects import ContainerStatus, Node, OwnerReference, Pod
from collector.watcher.records import MOST_RUNS, merged_runs, node_record, owners, pod_record
from schemas.pods import Owner, PodRecord, Run

S = 1_000_000
A, B, C = ("a" * 64, "b" * 64, "c" * 64)


def _time(second: int) -> str:
    return f"1970-01-01T00:{second // 60:02}:{second % 60:02}Z"


def _running(identity: str, started: int) -> dict[str, Any]:
    return {"containerID": f"containerd://{identity}", "state": {"running": {"startedAt": _time(started)}}}


def _ended(identity: str, started: int, finished: int) -> dict[str, Any]:
    times = {"startedAt": _time(started), "finishedAt": _time(finished)}
    return {"terminated": {"containerID": f"containerd://{identity}", "exitCode": 1, **times}}


def _status(**fields: Any) -> ContainerStatus:
    return msgspec.convert({"name": "main", **fields}, ContainerStatus)


def _pod(status: dict[str, Any] | None = None, phase: str = "Running", **meta: Any) -> Pod:
    statuses = [{"name": "main", **status}] if status else []
    limits = {"nvidia.com/gpu": "2", "cpu": "4"}
    content = {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": _time(1), **meta},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            "initContainers": [{"name": "setup"}, {"name": "helper", "restartPolicy": "Always"}],
            "ephemeralContainers": [{"name": "debug"}],
        },
        "status": {"phase": phase, "containerStatuses": statuses},
    }
    return msgspec.json.decode(msgspec.json.encode(content), type=Pod)


def _runs(record: PodRecord) -> list[Run]:
    return next(container.runs for container in record.containers if container.name == "main")


def test_record_holds_what_the_object_says() -> None:
    """Identity, node, kinds of containers, GPU requests, labels and the static pod's hash are taken over."""
    hashed = {"kubernetes.io/config.hash": "3e61c214bc3ed9ff81e21474dd6cba17"}
    record = pod_record(None, _pod(_running(A, 10), labels={"app": "x"}, annotations=hashed), 99)
    assert (record.uid, record.namespace, record.name, record.node) == ("u", "n", "p", "n1")
    assert (record.created_us, record.seen_us, record.phase) == (1 * S, 99, "Running")
    assert record.config_hash == hashed["kubernetes.io/config.hash"]
    assert record.labels == {"app": "x"}
    kinds = {container.name: container.kind for container in record.containers}
    assert kinds == {"main": "main", "setup": "init", "helper": "sidecar", "debug": "ephemeral"}
    assert [c.requests for c in record.containers if c.kind == "main"] == [{"nvidia.com/gpu": 2}]
    assert _runs(record) == [Run(container_id=A, started_us=10 * S)]


def test_seeing_the_same_twice_changes_nothing() -> None:
    """The same object later gives an equal record, also in when it was seen."""
    first = pod_record(None, _pod(_running(A, 10)), 99)
    assert pod_record(first, _pod(_running(A, 10)), 500) == first


def test_runs_of_earlier_states_are_kept() -> None:
    """Three runs, of which the API server never tells more than two at once, are all in the record."""
    first = pod_record(None, _pod(_running(A, 10)), 1)
    second = pod_record(first, _pod(_running(B, 30) | {"lastState": _ended(A, 10, 20)}), 2)
    third = pod_record(second, _pod({"state": _ended(C, 50, 60), "lastState": _ended(B, 30, 40)}), 3)
    assert _runs(third) == [
        Run(container_id=A, started_us=10 * S, finished_us=20 * S),
        Run(container_id=B, started_us=30 * S, finished_us=40 * S),
        Run(container_id=C, started_us=50 * S, finished_us=60 * S),
    ]


def test_run_whose_end_was_missed_ends_before_the_next() -> None:
    """After two restarts unseen, the old run ends at the latest by the start of the next known one."""
    runs = merged_runs(
        [Run(container_id=A, started_us=10 * S)],
        _status(**_running(C, 50), lastState=_ended(B, 30, 40)),
        None,
    )
    assert [(run.container_id, run.finished_us) for run in runs] == [(A, 30 * S), (B, 40 * S), (C, None)]


def test_told_end_replaces_an_inferred_one() -> None:
    """An end first inferred is corrected once the API server tells it, and then stays."""
    inferred = merged_runs([Run(container_id=A, started_us=10 * S)], _status(**_running(B, 30)), None)
    assert inferred[0].finished_us == 30 * S
    told = merged_runs(inferred, _status(**_running(B, 30), lastState=_ended(A, 10, 20)), None)
    assert told[0].finished_us == 20 * S
    assert merged_runs(told, _status(**_running(B, 30)), None)[0].finished_us == 20 * S


def test_container_that_could_not_start_ran_no_time() -> None:
    """StartError tells a start in 1970; the run has no length instead of 50 years."""
    status = _status(state=_ended(A, 0, 500))
    assert merged_runs([], status, None) == [Run(container_id=A, started_us=500 * S, finished_us=500 * S)]


def test_lost_container_ends_when_that_is_seen() -> None:
    """ContainerStatusUnknown tells no times: the run ends at the latest when it was told."""
    first = pod_record(None, _pod(_running(A, 10)), 1)
    lost = {"state": {"terminated": {"exitCode": 137, "startedAt": None, "finishedAt": None}}}
    assert _runs(pod_record(first, _pod(lost), 77 * S)) == [Run(container_id=A, started_us=10 * S, finished_us=77 * S)]


def test_ended_pod_has_no_open_run() -> None:
    """A pod that failed without container states (eviction) has no run that goes on."""
    first = pod_record(None, _pod(_running(A, 10)), 1)
    failed = pod_record(first, _pod(None, phase="Failed"), 30 * S)
    assert _runs(failed) == [Run(container_id=A, started_us=10 * S, finished_us=30 * S)]
    assert pod_record(failed, _pod(None, phase="Failed"), 60 * S) == failed


def test_deletion_is_not_forgotten() -> None:
    """A record that is deleted stays so whatever is seen of it later."""
    deleted = msgspec.structs.replace(pod_record(None, _pod(), 1), deleted_us=5)
    assert pod_record(deleted, _pod(_running(A, 10)), 9).deleted_us == 5


@pytest.mark.parametrize(
    ("kind", "name", "labels", "chain"),
    [
        ("StatefulSet", "web", {}, [("StatefulSet", "web")]),
        ("ReplicaSet", "web-5d9", {"pod-template-hash": "5d9"}, [("ReplicaSet", "web-5d9"), ("Deployment", "web")]),
        ("ReplicaSet", "web-5d9", {}, [("ReplicaSet", "web-5d9")]),
        ("ReplicaSet", "web-5d9", {"pod-template-hash": "777"}, [("ReplicaSet", "web-5d9")]),
        ("Job", "train-5d9", {"pod-template-hash": "5d9"}, [("Job", "train-5d9")]),
    ],
)
def test_owner_chain_ends_at_the_top(
    kind: str, name: str, labels: dict[str, str], chain: list[tuple[str, str]]
) -> None:
    """The controller is the owner; a Deployment is named only where the template hash proves it."""
    references = [OwnerReference("Other", "x"), OwnerReference(kind, name, "uid", True)]
    found: list[Owner] = owners(references, labels)
    assert [(owner.kind, owner.name) for owner in found] == chain


def test_node_record_follows_labels_and_capacity() -> None:
    """Heartbeats change nothing; labels and GPU capacity do; a node that came back is not deleted."""
    content = {
        "metadata": {"name": "n1", "labels": {"a": "b"}},
        "status": {"capacity": {"nvidia.com/gpu": "8", "cpu": "4"}},
    }
    node = msgspec.convert(content, Node)
    record = node_record(None, node, 5)
    assert (record.labels, record.capacity, record.seen_us) == ({"a": "b"}, {"nvidia.com/gpu": 8}, 5)
    assert node_record(record, node, 9) == record
    gone = msgspec.structs.replace(record, deleted_us=7)
    assert node_record(gone, node, 9).deleted_us is None


def test_runs_of_a_crash_loop_are_bounded() -> None:
    """Of a container that restarts for weeks the newest runs stay, so that its record always fits into a message."""
    runs: list[Run] = []
    for number in range(MOST_RUNS + 20):
        state = {"running": {"startedAt": _time(number)}}
        runs = merged_runs(runs, _status(containerID=f"containerd://{number:064x}", state=state), None)
    assert len(runs) == MOST_RUNS
    assert (runs[0].container_id, runs[-1].container_id) == (f"{20:064x}", f"{MOST_RUNS + 19:064x}")
    assert [run.finished_us for run in runs[:-1]] == [run.started_us for run in runs[1:]]
