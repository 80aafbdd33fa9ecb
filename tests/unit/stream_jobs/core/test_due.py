"""Many silent nodes whose windows become due at one clock are looked at and tidied up a bounded number of times."""

from collections import Counter
from typing import Any

import pytest

from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.core.cluster import ClusterState
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.node import NodeState
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.test_late_pieces import clock, reading

NODES, WINDOWS = 2000, 3


def _counted(monkeypatch: pytest.MonkeyPatch, calls: Counter[str], owner: type, name: str) -> None:
    real = getattr(owner, name)

    def method(self: Any, *given: Any) -> Any:
        calls[name] += 1
        return real(self, *given)

    monkeypatch.setattr(owner, name, method)


def _silent_fleet() -> PartitionMeter:
    """Nodes that send one reading each and are cut at the last clock of gpu-samples, the only topic that was read."""
    meter, one = PartitionMeter(MeterSettings(simulated_time=True), Source(0)), reading(0, 0, 0, 5, 5)
    samples = [clock(GPU_SAMPLES, 0, 0)]
    for n in range(NODES):
        headers = [(name, b"n%d" % n if name == "node" else value) for name, value in one.headers]
        samples.append(LogRecord(n + 1, 0, headers, one.payload))
    samples += [clock(GPU_SAMPLES, NODES + i, 5 * i) for i in range(1, 62)]
    meter.feed(GPU_SAMPLES, samples)
    return meter


def test_closing_many_silent_nodes_tidies_each_up_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node is tidied up once per window closed and once more, however many became due with it."""
    meter, calls = _silent_fleet(), Counter[str]()
    for topic in (POD_MAPPINGS, POD_EVENTS):
        meter.feed(topic, [clock(topic, i, 5 * i) for i in range(62)])
    _counted(monkeypatch, calls, NodeState, "forget")
    while meter.close_ready() is not None:
        pass
    assert meter.counts["windows"] == WINDOWS * NODES
    assert calls["forget"] <= (WINDOWS + 1) * NODES


def test_nodes_that_wait_for_another_topic_are_not_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the clocks of the pod topics lag, asking for windows costs one look, not one per node that waits."""
    meter, calls = _silent_fleet(), Counter[str]()
    _counted(monkeypatch, calls, ClusterState, "first_cuts")
    for _ in range(10):
        assert meter.close_ready() is None
    assert 1 <= calls["first_cuts"] <= 10


def test_the_oldest_window_of_all_nodes_closes_first() -> None:
    """Windows of many nodes are closed by the time they start at, so none waits behind a node's later ones."""
    meter = _silent_fleet()
    for topic in (POD_MAPPINGS, POD_EVENTS):
        meter.feed(topic, [clock(topic, i, 5 * i) for i in range(62)])
    starts: list[int] = []
    while (table := meter.close_ready()) is not None:
        starts += sorted(set(table.column("window_start_us").to_pylist()))
    assert starts == sorted(starts)
    assert len(set(starts)) == WINDOWS
