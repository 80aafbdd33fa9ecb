"""Which worker gets which partitions: all input topics of a partition go to one."""

from types import SimpleNamespace

import pytest

from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from stream_jobs.faust_parts import TogetherAssignor


def _assignor() -> TogetherAssignor:
    assignor = TogetherAssignor.__new__(TogetherAssignor)
    assignor.app = SimpleNamespace(conf=SimpleNamespace(table_standby_replicas=1))  # type: ignore[assignment]
    return assignor


def test_topics_without_partitions_are_told() -> None:
    """Where no broker told a topic's partitions, the leader knows what it left out, until the next assignment."""
    assignor = _assignor()
    members = {"m": assignor.metadata(set(INPUT_TOPICS))}
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: None if topic == GPU_SAMPLES else {0})
    assignor.on_assignment(assignor.assign(cluster, members)["m"])
    assert assignor.unassigned == {GPU_SAMPLES}
    assignor.on_assignment(None)
    assert assignor.unassigned == set()


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7])
def test_topics_of_a_partition_go_to_one_worker(workers: int, partitions: int) -> None:
    """Whatever the counts, every partition has one worker, the same for all three topics."""
    assignor = _assignor()
    members = {f"m{i}": assignor.metadata(set(INPUT_TOPICS)) for i in range(workers)}
    cluster = SimpleNamespace(partitions_for_topic=lambda _: set(range(partitions)))
    owners: dict[tuple[str, int], list[str]] = {}
    for member, assignment in assignor.assign(cluster, members).items():
        for topic, numbers in assignment.assignment:
            for number in numbers:
                owners.setdefault((topic, number), []).append(member)
    for number in range(partitions):
        of_topics = [owners[topic, number] for topic in INPUT_TOPICS]
        assert all(len(owner) == 1 and owner == of_topics[0] for owner in of_topics)
