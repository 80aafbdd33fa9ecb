"""Which topics wait: memory and distance stay bounded, and whatever the log holds all of it is read in the end."""

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from stream_jobs import log
from stream_jobs import restraint as subject
from stream_jobs.core.settings import MeterSettings
from stream_jobs.lane import Lane, open_lane
from stream_jobs.restraint import Restraint, Standing, to_pause

SKEW_US = 100
BEHIND = dict.fromkeys(INPUT_TOPICS, 1000)


def _paused(clocks_us: dict[str, int], **other: object) -> set[str]:
    given_ = {"behind": BEHIND, "limit_bytes": 1000, "skew_us": SKEW_US} | other
    return set(to_pause(Standing(clocks_us=clocks_us, **given_)))  # type: ignore[arg-type]


def test_topic_far_ahead_waits_and_goes_on_at_half_the_distance() -> None:
    """Beyond the distance a topic waits, whichever it is, until it is only half as far ahead."""
    for far in INPUT_TOPICS:
        clocks_us = dict.fromkeys(INPUT_TOPICS, 1000) | {far: 1000 + SKEW_US + 1}
        assert _paused(clocks_us) == {far}
        assert _paused(clocks_us | {far: 1000 + SKEW_US}) == set()
        assert _paused(clocks_us | {far: 1000 + SKEW_US // 2 + 1}, paused=frozenset({far})) == {far}
        assert _paused(clocks_us | {far: 1000 + SKEW_US // 2}, paused=frozenset({far})) == set()


def test_full_memory_pauses_gpu_samples_alone() -> None:
    """Over the limit gpu-samples waits where it is ahead at all, until a fifth is free; the others go on."""
    ahead = {GPU_SAMPLES: 1010, POD_MAPPINGS: 1000, POD_EVENTS: 1000}
    assert _paused(ahead, held_bytes=1001) == {GPU_SAMPLES}
    assert _paused(ahead, held_bytes=1000) == set()
    assert _paused(ahead, held_bytes=801, paused=frozenset({GPU_SAMPLES})) == {GPU_SAMPLES}
    assert _paused(ahead, held_bytes=800, paused=frozenset({GPU_SAMPLES})) == set()


def test_full_memory_with_nothing_to_wait_for_pauses_nothing() -> None:
    """Where the other topics are as far, or at their ends, only gpu-samples can free memory: it is read."""
    level = dict.fromkeys(INPUT_TOPICS, 1000)
    assert _paused(level, held_bytes=5000) == set()
    ends = {GPU_SAMPLES: 1000, POD_MAPPINGS: 0, POD_EVENTS: 0}
    assert _paused({GPU_SAMPLES: 2000, POD_MAPPINGS: 1000, POD_EVENTS: 1000}, held_bytes=5000, behind=ends) == set()


def test_topic_at_its_end_holds_nobody_back() -> None:
    """A topic whose log ends hours ago, e.g. for want of a watcher, is not waited for."""
    clocks_us = {GPU_SAMPLES: 10_000, POD_MAPPINGS: 10_000, POD_EVENTS: 1000}
    assert _paused(clocks_us, behind={GPU_SAMPLES: 500, POD_MAPPINGS: 500, POD_EVENTS: 3}) == set()
    assert _paused(clocks_us) == {GPU_SAMPLES, POD_MAPPINGS}


def test_topic_without_a_clock_yet_is_waited_for() -> None:
    """A topic that has much to come before its first clock is the one farthest back, also if its end is not known."""
    clocks_us = {GPU_SAMPLES: 1_790_000_000_000_000, POD_MAPPINGS: 1_790_000_000_000_000}
    assert _paused(clocks_us) == {GPU_SAMPLES, POD_MAPPINGS}
    assert _paused(clocks_us, behind={GPU_SAMPLES: 10, POD_MAPPINGS: 10}) == {GPU_SAMPLES, POD_MAPPINGS}


_LOGS = st.fixed_dictionaries(
    {topic: st.lists(st.one_of(st.none(), st.integers(1, 2000)), max_size=300) for topic in INPUT_TOPICS}
)


@given(logs=_LOGS, stride=st.integers(1, 60), limit_bytes=st.integers(0, 50))
def test_everything_is_read_in_the_end(logs: dict[str, list[int | None]], stride: int, limit_bytes: int) -> None:
    """Whatever clocks three logs hold and however little memory there is, pausing never brings reading to a halt."""
    at, clocks_us, paused = dict.fromkeys(INPUT_TOPICS, 0), dict[str, int](), frozenset[str]()
    for _ in range(2000):
        behind = {topic: len(logs[topic]) - at[topic] for topic in INPUT_TOPICS}
        if not any(behind.values()):
            return
        standing = Standing(
            clocks_us=clocks_us, behind=behind, paused=paused, held_bytes=at[GPU_SAMPLES], limit_bytes=limit_bytes,
            skew_us=SKEW_US,
        )  # fmt: skip
        paused = to_pause(standing)
        for topic in set(INPUT_TOPICS) - paused:
            for clock_us in logs[topic][at[topic] : at[topic] + stride]:
                clocks_us[topic] = max(clocks_us.get(topic, 0), clock_us or 0)
            at[topic] = min(len(logs[topic]), at[topic] + stride)
    raise AssertionError(f"stuck at {at} of {logs}, paused {set(paused)}")


class _Clocks:
    """A monotonic clock and a thread's processor time, and what a look takes of both."""

    def __init__(self, patch: pytest.MonkeyPatch, wall_s: float, cpu_s: float) -> None:
        self.now_s, self._cpu_s, self._takes_s = 0.0, 0.0, (wall_s, cpu_s)
        self.looks: list[float] = []
        patch.setattr(subject, "monotonic_s", lambda: self.now_s)
        patch.setattr(subject, "thread_cpu_s", lambda: self._cpu_s)

    def held_bytes(self) -> int:
        """Takes its time."""
        self.looks.append(self.now_s)
        self.now_s, self._cpu_s = self.now_s + self._takes_s[0], self._cpu_s + self._takes_s[1]
        return 0


def _looks(patch: pytest.MonkeyPatch, wall_s: float, cpu_s: float, rounds: int) -> list[float]:
    """When memory was looked at in rounds of a second, where a look takes so long and so much of the processor."""
    clocks, lane = _Clocks(patch, wall_s, cpu_s), open_lane(3, 1, MeterSettings(), "id", dict.fromkeys(INPUT_TOPICS, 0))
    lane.meter.held_bytes = clocks.held_bytes  # type: ignore[method-assign]
    restraint = Restraint(Reader(), 1 << 20, SKEW_US, log.logger("test"))
    for _ in range(rounds):
        asyncio.run(restraint.look({3: lane}))
        clocks.now_s += 1
    return clocks.looks


def test_looks_cost_a_fiftieth_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look of 40 ms is followed by the next after two seconds, and one that costs nothing by one in each round."""
    assert _looks(monkeypatch, 0.0, 0.04, rounds=7) == [0, 2, 4, 6]
    assert _looks(monkeypatch, 0.0, 0.0, rounds=3) == [0, 1, 2]


def test_look_in_which_the_machine_stood_still_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process frozen for ten seconds within a look looks again at once, since that has not cost a processor."""
    assert _looks(monkeypatch, 10.0, 0.01, rounds=3) == [0, 11, 22]


def test_looks_come_at_least_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much a look costs, memory is bounded by a figure of ten seconds ago."""
    assert _looks(monkeypatch, 0.0, 3.0, rounds=21) == [0, 10, 20]


class Reader:
    """A reader that notes what it is told; every log ends at 5000."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def log_ends(self, partition: int) -> dict[str, int]:
        """Far."""
        return dict.fromkeys(INPUT_TOPICS, 5000)

    def pause(self, partition: int, topics: set[str]) -> None:
        """Notes it."""
        self.told.append(("pause", partition, set(topics)))

    async def resume(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Notes it."""
        self.told.append(("resume", partition, dict(offsets)))


def test_topic_goes_on_where_its_lane_expects() -> None:
    """What was lost between a pause and its end is read again: the reader is sent to the expected offset."""
    reader = Reader()
    restraint = Restraint(reader, 1 << 20, SKEW_US, log.logger("test"))
    lane: Lane = open_lane(3, 1, MeterSettings(), "id", dict.fromkeys(INPUT_TOPICS, 40))
    clocks = {GPU_SAMPLES: 1000, POD_MAPPINGS: 1, POD_EVENTS: 1}
    lane.meter.topic_clocks = lambda: clocks  # type: ignore[method-assign]

    def look() -> None:
        restraint._next_look_s = 0.0
        asyncio.run(restraint.look({3: lane}))

    look()
    look()
    assert (reader.told, lane.paused) == ([("pause", 3, {GPU_SAMPLES})], {GPU_SAMPLES})
    clocks[POD_MAPPINGS] = clocks[POD_EVENTS] = 1000
    look()
    assert (reader.told[1:], lane.paused) == ([("resume", 3, {GPU_SAMPLES: 40})], set())
