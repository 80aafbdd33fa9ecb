"""Who gets which partition, without a broker."""

import asyncio

import pytest

from schemas.names import INPUT_TOPICS
from stream_jobs.faust_app import FaustShell, TogetherAssignor
from stream_jobs.settings import WorkerSettings


class _Cluster:
    """As much of a cluster's metadata as an assignor asks."""

    def __init__(self, partitions: int) -> None:
        self._partitions = set(range(partitions))

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self._partitions


async def _nothing(*_: object) -> None:
    return None


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("partitions", [1, 4, 5, 8])
def test_topics_of_a_partition_go_to_one_worker(workers: int, partitions: int) -> None:
    """However many workers share however many partitions: each partition has one worker, for all three topics."""
    assignor = FaustShell(WorkerSettings(), _nothing, _nothing).app.assignor
    assert isinstance(assignor, TogetherAssignor)
    members = {f"worker-{i}": assignor.metadata(set(INPUT_TOPICS)) for i in range(workers)}
    given = assignor.assign(_Cluster(partitions), members)
    owners: dict[int, list[tuple[str, str]]] = {partition: [] for partition in range(partitions)}
    for worker, assignment in given.items():
        for topic, numbers in assignment.assignment:
            for number in numbers:
                owners[number].append((topic, worker))
    for places in owners.values():
        assert sorted(topic for topic, _ in places) == sorted(INPUT_TOPICS)
        assert len({worker for _, worker in places}) == 1


def test_consumer_inside_faust_takes_our_assignor() -> None:
    """The Kafka consumer that Faust makes for the worker is given this assignor and no other."""

    async def strategies() -> list[object]:
        thread = FaustShell(WorkerSettings(), _nothing, _nothing).app.consumer._new_consumer_thread()
        consumer = thread._create_consumer(loop=asyncio.get_running_loop())
        consumer._closed = True
        return list(consumer._partition_assignment_strategy)

    assert [type(strategy) for strategy in asyncio.run(strategies())] == [TogetherAssignor]
