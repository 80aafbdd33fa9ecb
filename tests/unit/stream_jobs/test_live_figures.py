"""When provisional figures are made: within their share, not in the past, and not where there is nothing new."""

from itertools import pairwise

import pyarrow as pa
import pytest

from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from stream_jobs import live_figures as subject
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.settings import MeterSettings
from stream_jobs.lane import Lane, Received, open_lane
from stream_jobs.live_figures import LiveFigures
from stream_jobs.publish import Outgoing
from tests.integration import fleet

NODES = 100


class _Clock:
    """A clock that moves by itself: `cost_s` at each look."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.s, self.cost_s = 1000.0, cost_s

    def __call__(self) -> float:
        self.s += self.cost_s
        return self.s


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The wall clock, to be set; append times of the lane are 1,000 s."""
    now = [1_000_000_000]
    monkeypatch.setattr(subject, "wall_us", lambda: now[0])
    return now


def _lane(reached: dict[str, int] | None = None) -> Lane:
    return open_lane(0, 1, MeterSettings(simulated_time=True), "id", dict.fromkeys(INPUT_TOPICS, 0), reached)


def _feed(lane: Lane, nodes: list[fleet.Node], step: int) -> None:
    now_us = fleet.START_US + step * fleet.PERIOD_US
    sent = [*fleet.clocks(now_us, 1), *(node.reading(now_us) for node in nodes)]
    at = dict(lane.expected)
    received = []
    for each in sent:
        record = LogRecord(at[each.topic], 1_000_000_000, each.headers, each.payload)
        received.append(Received(each.topic, 0, 1, record))
        at[each.topic] += 1
    assert lane.feed(received) == []


def _nodes(count: int = NODES) -> list[fleet.Node]:
    return [fleet.Node(number, 1) for number in range(count)]


def test_figures_take_no_more_than_their_share(wall: list[int]) -> None:
    """With more to show than the share allows, the time taken stays within it and one batch; all come in turn."""
    lane, nodes, sent, clock = _lane(), _nodes(), [], _Clock(cost_s=0.01)
    live = LiveFigures(sent.append, 2.0, 0.2, clock, clock)
    _feed(lane, nodes, 1)
    taken_s, began_s = 0.0, clock.s
    for _ in range(40):
        clock.s += 0.5
        before_s = clock.s
        live.turn([lane])
        taken_s += clock.s - before_s
        _feed(lane, nodes, 2)
        assert taken_s <= 0.2 * (clock.s - began_s) + 0.05
    assert len(sent) >= NODES // subject.NODES_A_BATCH
    assert live.rows > NODES


def test_figures_never_hold_a_round_up(wall: list[int]) -> None:
    """Where the machine gives no processor time, a turn ends after its longest time all the same."""
    lane, sent, clock = _lane(), [], _Clock(cost_s=0.2)
    live = LiveFigures(sent.append, 2.0, 1.0, clock, lambda: 0.0)
    _feed(lane, _nodes(), 1)
    live.turn([lane])
    clock.s += 2.0
    before_s = clock.s
    live.turn([lane])
    assert 0 < len(sent) < NODES // subject.NODES_A_BATCH
    assert clock.s - before_s <= subject.LONGEST_TURN_S + 3 * clock.cost_s


def test_figures_come_when_there_is_something_new_and_not_too_often(wall: list[int]) -> None:
    """A node without a new reading is not shown again; one with readings at each turn is shown every two seconds."""
    lane, nodes, sent, clock = _lane(), _nodes(3), [], _Clock(cost_s=1e-6)
    live = LiveFigures(sent.append, 2.0, 1.0, clock, clock)
    times: list[float] = []
    for step in range(1, 30):
        clock.s += 0.5
        before = len(sent)
        _feed(lane, nodes, step)
        live.turn([lane])
        times += [clock.s] * (len(sent) > before)
    assert len(times) > 5
    assert all(2.0 <= later - former <= 2.6 for former, later in pairwise(times))
    before = len(sent)
    for _ in range(10):
        clock.s += 5.0
        live.turn([lane])
    assert len(sent) == before + 1, "what came last was to be shown once more, and then nothing"


@pytest.mark.parametrize("why", ["off", "behind", "reading again"])
def test_no_figures_where_they_are_not_wanted(wall: list[int], why: str) -> None:
    """None where they are switched off, where the lane is behind its log, and where it reads again to where it was."""
    lane, sent, clock = _lane({GPU_SAMPLES: 10_000} if why == "reading again" else None), [], _Clock(1e-6)
    live = LiveFigures(sent.append, 0.0 if why == "off" else 2.0, 0.2, clock, clock)
    _feed(lane, _nodes(3), 1)
    wall[0] += subject.BEHIND_US + 1 if why == "behind" else 0
    for _ in range(4):
        clock.s += 5.0
        live.turn([lane])
    assert sent == []


def test_figures_are_of_the_partition_and_reach_to_the_newest_reading(wall: list[int]) -> None:
    """Messages go to gpu-live, to the partition of the lane; their figures end where the newest reading does."""
    lane, sent, clock = _lane(), [], _Clock(1e-6)
    live = LiveFigures(sent.append, 2.0, 0.2, clock, clock)
    _feed(lane, _nodes(3), 1)
    for _ in range(2):
        clock.s += 1.0
        live.turn([lane])
    (message,) = sent
    assert isinstance(message, Outgoing)
    assert (message.topic, message.partition) == ("gpu-live", 0)
    rows = pa.ipc.open_stream(message.payload).read_all().to_pylist()
    assert {row["as_of_us"] for row in rows} == {fleet.START_US + fleet.PERIOD_US}
    assert {row["lifetime_us"] for row in rows} == {fleet.PERIOD_US}
