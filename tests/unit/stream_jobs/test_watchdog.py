"""When messages do not come: the log decides whether that is silence or a reader that has died."""

import asyncio
from collections.abc import Mapping

import pytest

from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS
from stream_jobs import log
from stream_jobs.core.settings import MeterSettings
from stream_jobs.errors import FencedError, Retry, Stop
from stream_jobs.lane import Lane, open_lane
from stream_jobs.watchdog import AGAIN_S, SILENCE_S, UNSETTLED_S, Watchdog


class Reader:
    """A log with given starts and ends; notes where it was sent back to."""

    def __init__(self, end: int, start: int = 0, error: Exception | None = None) -> None:
        self.end, self.start, self.error = end, start, error
        self.seeks: list[tuple[int, dict[str, int]]] = []

    def log_ends(self, partition: int) -> dict[str, int]:
        """The end, of every topic."""
        return dict.fromkeys(INPUT_TOPICS, self.end)

    async def true_ends(self, partitions: list[int]) -> dict[int, dict[str, int]]:
        """The end, of every topic."""
        if isinstance(self.error, Retry):
            raise self.error
        return {p: dict.fromkeys(INPUT_TOPICS, self.end) for p in partitions}

    async def log_starts(self, partitions: list[int]) -> dict[int, dict[str, int]]:
        """The start, of every topic."""
        return {p: dict.fromkeys(INPUT_TOPICS, self.start) for p in partitions}

    async def seek(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Notes it."""
        if isinstance(self.error, FencedError):
            raise self.error
        self.seeks.append((partition, dict(offsets)))


def _lane(expected: int) -> Lane:
    return open_lane(0, 1, MeterSettings(), "id", dict.fromkeys(INPUT_TOPICS, expected))


def _watch(reader: Reader, lane: Lane, seconds: float, step_s: float = 0.5) -> None:
    """Looks at the lane for a time in which nothing is fed."""
    dog = Watchdog(reader, log.logger("test"))

    async def run() -> None:
        for _ in range(round(seconds / step_s)):
            await dog.look({0: lane}, step_s)
            await asyncio.sleep(0)

    asyncio.run(run())


def test_silent_reader_is_sent_back_to_what_is_expected() -> None:
    """Where the log has more and nothing comes, the reader is sent back to each topic's expected offset."""
    reader = Reader(end=9)
    _watch(reader, _lane(4), AGAIN_S + 2)
    assert sorted(reader.seeks, key=str) == [(0, {topic: 4}) for topic in sorted(INPUT_TOPICS)]


def test_reader_that_stays_silent_ends_the_process() -> None:
    """Where sending it back did not help the process ends with Retry, with topic, place and both offsets."""
    reader = Reader(end=9)
    with pytest.raises(Retry, match=r"gpu-samples/0: the log ends at 9, but offset 4 did not come"):
        _watch(reader, _lane(4), SILENCE_S + 2)
    assert len(reader.seeks) > len(INPUT_TOPICS)


def test_quiet_log_is_no_silence() -> None:
    """At the end of the log nothing comes, for as long as it likes."""
    reader = Reader(end=4)
    _watch(reader, _lane(4), 10 * SILENCE_S)
    assert reader.seeks == []


def test_log_that_begins_behind_the_expected_offset_stops() -> None:
    """What was deleted before it was metered stops the worker, also where no later message has come."""
    with pytest.raises(Stop, match=r"offset 4 is next, the log starts at 9.*log_truncated"):
        _watch(Reader(end=9, start=9), _lane(4), AGAIN_S + 2)


def test_log_that_ends_before_what_was_read_stops() -> None:
    """A log that ends below the offset that is next was made anew, or lost records: the worker stops."""
    with pytest.raises(Stop, match="the log ends at 3, offset 4 is next"):
        _watch(Reader(end=3), _lane(4), AGAIN_S + 2)


class SlowReader(Reader):
    """Answers when it is let."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        self.may_answer = asyncio.Event()

    async def true_ends(self, partitions: list[int]) -> dict[int, dict[str, int]]:
        """The end that the log had when it was asked."""
        ends = await super().true_ends(partitions)
        await self.may_answer.wait()
        return ends


def _answered_late(reader: SlowReader, lane: Lane, now_expected: int) -> None:
    """Messages up to an offset are read while an answer is on its way, which comes after a new silence."""
    dog = Watchdog(reader, log.logger("test"))

    async def look(seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            await dog.look({0: lane}, 0.5)
            await asyncio.sleep(0)

    async def run() -> None:
        await look(AGAIN_S + 1)
        lane.fed.update(INPUT_TOPICS)
        lane.expected.update(dict.fromkeys(INPUT_TOPICS, now_expected))
        reader.end = now_expected
        await look(AGAIN_S + 1)
        reader.may_answer.set()
        await asyncio.sleep(0)
        await look(AGAIN_S + 1)

    asyncio.run(run())


@pytest.mark.parametrize("end", [4, 5])
def test_answer_that_was_overtaken_says_nothing(end: int) -> None:
    """An end that the log had before more of it came and was read is no lost log, and nobody is sent back by it."""
    reader, lane = SlowReader(end), _lane(4)
    _answered_late(reader, lane, now_expected=9)
    assert reader.seeks == []


def test_answer_that_was_overtaken_still_tells_of_a_lost_log() -> None:
    """An end below what had been read when it was asked for stops the worker, also where something came since."""
    with pytest.raises(Stop, match="the log ends at 3, offset 4 is next"):
        _answered_late(SlowReader(3), _lane(4), now_expected=5)


def test_answer_is_of_the_partitions_that_were_asked_about() -> None:
    """A partition that fell silent, or came, while an answer was on its way is not judged by it."""
    reader, old, new = SlowReader(9), _lane(4), _lane(9)
    dog = Watchdog(reader, log.logger("test"))

    async def run() -> None:
        old.silent_s = dict.fromkeys(INPUT_TOPICS, AGAIN_S)
        await dog.look({0: old}, 0.5)
        await asyncio.sleep(0)
        reader.may_answer.set()
        await asyncio.sleep(0)
        new.silent_s = dict.fromkeys(INPUT_TOPICS, SILENCE_S)
        await dog.look({1: new}, 0.5)

    asyncio.run(run())
    assert new.silent_s[GPU_SAMPLES] > SILENCE_S


def test_frozen_process_counts_no_silence() -> None:
    """A step of minutes between two looks (SIGSTOP) is not silence of the reader."""
    reader = Reader(end=9)
    _watch(reader, _lane(4), 1800, step_s=300)
    assert reader.seeks == []


def test_other_topic_that_is_caught_up_is_no_silence() -> None:
    """While one topic is fed and has thousands to come the others wait in the consumer; at its end they count again."""
    reader, lane = Reader(end=5000), _lane(4)
    dog = Watchdog(reader, log.logger("test"))

    async def run(seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            lane.fed.add(POD_EVENTS)
            await dog.look({0: lane}, 0.5)
            await asyncio.sleep(0)

    asyncio.run(run(2 * SILENCE_S))
    assert reader.seeks == []
    lane.expected[POD_EVENTS] = 4500
    asyncio.run(run(AGAIN_S + 2))
    assert len(reader.seeks) == 2


def test_topic_that_was_fed_once_is_silent_later() -> None:
    """What is fed begins the count anew, and no more than that."""
    reader, lane = Reader(end=9), _lane(4)
    lane.silent_s, lane.fed = dict.fromkeys(INPUT_TOPICS, AGAIN_S - 1), set(INPUT_TOPICS)
    _watch(reader, lane, AGAIN_S - 1)
    assert reader.seeks == []
    _watch(reader, lane, 3)
    assert len(reader.seeks) == len(INPUT_TOPICS)


def test_fed_topic_is_not_silent() -> None:
    """Each topic is counted by itself."""
    reader, lane = Reader(end=9), _lane(4)
    lane.silent_s[POD_EVENTS] = -1000.0
    _watch(reader, lane, AGAIN_S + 2)
    assert [offsets for _, offsets in reader.seeks] == [{GPU_SAMPLES: 4}, {"pod-mappings": 4}]


def test_broker_that_does_not_answer_is_no_silence() -> None:
    """Where the end of the log is not known nothing is decided."""
    reader = Reader(end=9, error=Retry("away"))
    _watch(reader, _lane(4), 3 * SILENCE_S)
    assert reader.seeks == []


def test_partition_lost_while_it_is_sent_back_is_no_fault() -> None:
    """An assignment that changes under the seek is left to the next round."""
    _watch(Reader(end=9, error=FencedError("gone")), _lane(4), AGAIN_S + 2)


def test_worker_without_an_assignment_ends() -> None:
    """Seconds of a rebalance pass; a minute without an assignment ends the process with Retry."""
    dog = Watchdog(Reader(end=0), log.logger("test"))
    for _ in range(int(UNSETTLED_S)):
        dog.note_unsettled(1.0)
    with pytest.raises(Retry, match="no assignment"):
        dog.note_unsettled(1.0)
