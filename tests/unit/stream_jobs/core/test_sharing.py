"""Records whose texts are shared say what they said."""

import msgspec

from schemas.pods import ContainerRecord, Owner, PodRecord, Run, decode_pod, encode_record
from schemas.snapshots import (
    DeviceSlots,
    Grant,
    ProcessIdentity,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)  # fmt: skip
from stream_jobs.core.sharing import shared_pod, shared_snapshot

CONTAINER_ID = "9f3c51d07ab24e66" * 4


def _snapshot(seq: int, pid: int = 7) -> Snapshot:
    process = ProcessIdentity(pid=pid, start_ticks=5, kind="container", pod_uid="u-1", container_id=CONTAINER_ID)
    other = ProcessIdentity(pid=9, start_ticks=6, kind="unknown", reason="gone")
    grant = Grant(gpu_uuid="G", slot="G::1", resource="r", namespace="ns", pod_name="p", container_name="c")
    slots = [DeviceSlots(gpu_uuid="G", slots=4)]
    snapshot = Snapshot(mapping_seq=seq, taken_us=seq, processes=[process, other], grants=[grant], slots=slots)
    return decode_snapshot(encode_snapshot(snapshot))


def test_shared_snapshot_says_the_same_and_shares_equal_lists() -> None:
    """Lists that equal the last snapshot's are its lists; a changed one is its own, and nothing else differs."""
    first = shared_snapshot(_snapshot(1), None)
    second = shared_snapshot(_snapshot(2), first)
    third = shared_snapshot(_snapshot(3, pid=8), second)
    assert (first, second, third) == (_snapshot(1), _snapshot(2), _snapshot(3, pid=8))
    assert second.processes is first.processes
    assert second.grants is first.grants
    assert third.processes is not first.processes
    assert third.grants is first.grants


def test_shared_pod_says_the_same_and_lends_its_texts_to_processes() -> None:
    """A pod's record is unchanged, and the processes of its container name the very same id."""
    runs = [Run(container_id="".join(CONTAINER_ID), started_us=1)]
    pod = PodRecord(
        uid="u-1", namespace="ns", name="p", node="n", owners=[Owner(kind="Job", name="j")], labels={"a": "b"},
        containers=[ContainerRecord(name="c", requests={"gpu": 1}, runs=runs)], deleted_us=9,
    )  # fmt: skip
    told = decode_pod(encode_record(pod))
    shared = shared_pod(told)
    assert shared == told
    process = shared_snapshot(_snapshot(1), None).processes[0]
    assert shared_snapshot(_snapshot(1), None).grants[0].pod_name is shared.name
    again = shared_pod(msgspec.convert(msgspec.to_builtins(pod), PodRecord))
    assert process.pod_uid is shared.uid
    assert again.node is shared.node
