"""Where a lane begins: at its progress or at the log's start, and the reader with it."""

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS
from stream_jobs import opening
from stream_jobs.core.carry import Carry, Progress, encode_carry
from stream_jobs.core.settings import MeterSettings
from stream_jobs.errors import FencedError, Retry, Stop
from stream_jobs.lane import Lane
from stream_jobs.log_reader import Layout
from stream_jobs.opening import Opener
from stream_jobs.progress import Pointer, digest, encode_body, encode_pointer
from stream_jobs.rules import Rules

OFFSETS = {topic: 100 + number for number, topic in enumerate(INPUT_TOPICS)}
PROGRESS = Progress(OFFSETS, encode_carry(Carry(samples_offset=OFFSETS[GPU_SAMPLES], clusters=[])))


class Shell:
    """As much of the Faust shell as opening needs; notes where the reader was sent."""

    def __init__(self, committed: dict[str, tuple[int, str]], start: int = 0, gone: bool = False) -> None:
        self._committed, self._start, self._gone = committed, start, gone
        self.seeks: list[tuple[int, dict[str, int]]] = []
        self.paused: list[tuple[int, set[str]]] = []

    async def committed(self, partitions: list[int]) -> dict[int, dict[str, tuple[int, str]]]:
        """The same of every partition."""
        return dict.fromkeys(partitions, self._committed)

    async def log_starts(self, partitions: list[int]) -> dict[int, dict[str, int]]:
        """The same of every topic."""
        return {p: dict.fromkeys(INPUT_TOPICS, self._start) for p in partitions}

    def pause(self, partition: int, topics: Iterable[str]) -> None:
        """Notes it."""
        if self._gone:
            raise FencedError("another assignment")
        self.paused.append((partition, set(topics)))

    async def resume(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Notes it."""
        if self._gone:
            raise FencedError("another assignment")
        self.seeks.append((partition, dict(offsets)))


IDS = {topic: f"id of {topic}" for topic in INPUT_TOPICS}
LAYOUT = Layout(IDS, 8)


REACHED = {GPU_SAMPLES: 150}


def _commit(
    partitions: int = 8, topics: dict[str, str] = IDS, reached: dict[str, int] = REACHED, **other: str
) -> dict[str, tuple[int, str]]:
    pointer = Pointer(1, "w", 0, [7], digest(encode_body(PROGRESS)), reached, topics, partitions)
    return {topic: (offset, other.get(topic, encode_pointer(pointer))) for topic, offset in OFFSETS.items()}


def _open(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, progress: Progress = PROGRESS, layout: Layout = LAYOUT
) -> list[Lane]:
    monkeypatch.setattr(opening, "read_progress", lambda *_: progress)
    monkeypatch.setattr(opening, "topic_layout", lambda *_: layout)
    rules = Rules("nowhere", MeterSettings(), None)
    opener = Opener(shell, "nowhere", rules, LAYOUT)  # type: ignore[arg-type]

    async def run() -> list[Lane]:
        return [lane async for lane in opener.open([3, 5], 2)]

    return asyncio.run(run())


def test_lane_begins_at_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a commit a lane expects what its progress says; it is read again from there while Faust waits."""
    shell = Shell(_commit())
    lanes = _open(shell, monkeypatch)
    assert [(lane.partition, lane.expected, lane.resumed, lane.reread_left()) for lane in lanes] == [
        (3, OFFSETS, True, 150 - OFFSETS[GPU_SAMPLES]),
        (5, OFFSETS, True, 150 - OFFSETS[GPU_SAMPLES]),
    ]
    assert (shell.seeks, shell.paused) == ([], [(3, set(INPUT_TOPICS)), (5, set(INPUT_TOPICS))])
    assert all(lane.rereading and lane.paused == set(INPUT_TOPICS) for lane in lanes)


def test_lane_that_was_no_further_than_its_progress_goes_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing to read again Faust is sent to the progress itself."""
    shell = Shell(_commit(reached={}))
    lanes = _open(shell, monkeypatch)
    assert (shell.seeks, shell.paused) == ([(3, OFFSETS), (5, OFFSETS)], [])
    assert not any(lane.rereading or lane.paused for lane in lanes)


def test_lane_without_progress_begins_at_the_start_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a commit a lane begins where each log starts, also at 0, and the reader is sent there."""
    shell = Shell({}, start=40)
    lanes = _open(shell, monkeypatch)
    assert [(lane.expected, lane.resumed) for lane in lanes] == [(dict.fromkeys(INPUT_TOPICS, 40), False)] * 2
    assert shell.seeks == [(3, dict.fromkeys(INPUT_TOPICS, 40)), (5, dict.fromkeys(INPUT_TOPICS, 40))]


def test_log_start_beyond_progress_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that no longer has the place of the progress stops the worker with the word log_truncated."""
    with pytest.raises(Stop, match=r"gpu-samples/3: offset 100 is next, the log starts at 101.*log_truncated"):
        _open(Shell(_commit(), start=101), monkeypatch)


def test_commits_that_differ_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three topics whose commits name different progress records stop the worker."""
    other = encode_pointer(Pointer(1, "w", 1, [9], "x"))
    with pytest.raises(Stop, match="different progress records"):
        _open(Shell(_commit(**{POD_EVENTS: other})), monkeypatch)


def test_progress_of_other_offsets_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress that says other offsets than the commit stops the worker."""
    other = Progress(OFFSETS | {POD_EVENTS: 1}, PROGRESS.carry)
    with pytest.raises(Stop, match="the commit says"):
        _open(Shell(_commit()), monkeypatch, other)


def test_progress_of_a_topic_that_was_made_anew_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of a topic mean nothing in another of its name: the worker stops and names the topic."""
    with pytest.raises(Stop, match=r"pod-events/3: the progress is of topic another,.*made anew"):
        _open(Shell(_commit(topics=IDS | {POD_EVENTS: "another"})), monkeypatch)


def test_progress_of_another_number_of_partitions_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that grew since the progress was made stop the worker; a progress that does not say goes on."""
    with pytest.raises(Stop, match="had 4 partitions and have 8"):
        _open(Shell(_commit(partitions=4)), monkeypatch)
    assert _open(Shell(_commit(partitions=0, topics={})), monkeypatch)


def test_topics_that_grow_under_a_worker_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a new assignment the topics are looked at again; more partitions than at the start stop the worker."""
    with pytest.raises(Stop, match="had 8 partitions and have 9"):
        _open(Shell(_commit()), monkeypatch, layout=LAYOUT._replace(partitions=9))


def test_topics_made_anew_under_a_worker_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was made anew while the worker ran ends it with Retry: a restart knows the new one."""
    with pytest.raises(Retry, match="gpu-samples were made anew"):
        _open(Shell({}), monkeypatch, layout=LAYOUT._replace(ids=IDS | {GPU_SAMPLES: "another"}))


def test_lane_notes_what_its_topics_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane knows the ids and the number of partitions of its topics, which go into its progress."""
    lane = _open(Shell({}), monkeypatch)[0]
    assert (lane.topics, lane.partitions, lane.meter.source.topic_id) == (IDS, 8, IDS[GPU_SAMPLES])


def test_assignment_that_changes_meanwhile_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that is taken away while it is opened raises FencedError, which costs nothing."""
    with pytest.raises(FencedError):
        _open(Shell(_commit(), gone=True), monkeypatch)
