"""Who a process and a grant belong to: every form of evidence, and what is said where it is missing."""

import pytest

from schemas.pods import ContainerRecord, Owner, PodRecord, Run
from schemas.snapshots import ProcessIdentity, Snapshot
from stream_jobs.core.identity import Directory, process_index

ID = "a" * 64
POD = PodRecord(
    uid="uid-1",
    namespace="ml",
    name="train-0",
    node="n",
    config_hash="f" * 32,
    owners=[Owner(kind="ReplicaSet", name="train-5d"), Owner(kind="Deployment", name="train")],
    containers=[
        ContainerRecord(name="main", requests={"nvidia.com/gpu": 2}, runs=[Run(container_id=ID, started_us=1)])
    ],
)


def process(**values: object) -> ProcessIdentity:
    """A process of a container."""
    return ProcessIdentity(**({"pid": 1, "start_ticks": 2, "kind": "container"} | values))


@pytest.mark.parametrize(
    ("found", "holder", "flags"),
    [
        (process(container_id=ID), "uid-1/main", set()),
        (process(container_id=ID, pod_uid="wrong"), "uid-1/main", set()),
        (process(container_id="b" * 64, pod_uid="uid-1"), "uid-1/id:bbbbbbbbbbbb", {"container_unknown"}),
        (process(container_id="b" * 64, pod_uid="f" * 32), "uid-1/id:bbbbbbbbbbbb", {"container_unknown"}),
        (process(container_id="b" * 64, pod_uid="uid-9"), "uid-9/id:bbbbbbbbbbbb", {"pod_unknown"}),
        (process(container_id="b" * 64), "host", set()),
        (process(kind="host"), "host", set()),
        (process(kind="unknown", reason="gone"), "unattributed", {"gone"}),
    ],
)
def test_process_belongs_to_what_its_evidence_says(found: ProcessIdentity, holder: str, flags: set[str]) -> None:
    """Container id first, then pod uid or a static pod's hash, then host; unknown is unattributed with its reason."""
    result = Directory([POD]).holder_of_process(found)
    assert (result.id, set(result.flags)) == (holder, flags)


def test_holder_carries_the_top_owner_and_its_request() -> None:
    """The last link of the owner chain and the sum of requested units travel with the holder."""
    holder = Directory([POD]).holder_of_process(process(container_id=ID))
    assert (holder.owner_kind, holder.owner_name, holder.requested_units) == ("Deployment", "train", 2)


def test_name_means_the_pod_that_was_alive_then() -> None:
    """Two pods of one name are told apart by time; before, between and after them the nearest life counts."""
    old = PodRecord(uid="old", namespace="ns", name="web-0", node="n", created_us=100, deleted_us=200)
    new = PodRecord(uid="new", namespace="ns", name="web-0", node="n", created_us=220)
    directory = Directory([new, old])
    times = {50: "old", 100: "old", 199: "old", 205: "old", 219: "new", 220: "new", 900: "new"}
    found = {t: directory.pod_as_of("ns", "web-0", t) for t in times}
    assert {t: pod.uid if pod else None for t, pod in found.items()} == times
    assert directory.pod_as_of("ns", "other", 1) is None


def test_pid_without_a_start_time_is_known_only_if_it_was_used_once() -> None:
    """A pid that two processes had names neither of them when its start time is missing."""
    one, two = process(pid=7, start_ticks=1), process(pid=7, start_ticks=2)
    alone = process(pid=8, start_ticks=3)
    snapshot = Snapshot(mapping_seq=1, taken_us=0, processes=[one, two, alone], grants=[], slots=[])
    index = process_index(snapshot)
    assert index.get((7, -1)) is None
    assert (index[7, 2], index[8, -1]) == (two, alone)
