from schemas.clock import ClockRecord, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS
from stream_jobs.core.carry import Progress
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.settings import MeterSettings
from stream_jobs.lane import Gap, Lane, Received, open_lane
from tests.property.workload import make_log

SETTINGS = MeterSettings(simulated_time=True)
HEADERS = encode_headers(Headers(record=CLOCK, cluster="c"))


def _clock(offset: int, topic: str = GPU_SAMPLES) -> Received:
    payload = encode_clock(ClockRecord(cluster="c", now_us=1_790_000_000_000_000 + offset * 5_000_000), b"", topic, 0)
    return Received(topic, 0, 1, LogRecord(offset, 0, HEADERS, payload))


STARTS = dict.fromkeys(INPUT_TOPICS, 0)


def _lane(begin: Progress | dict[str, int] = STARTS) -> Lane:
    return open_lane(0, 1, SETTINGS, "id", begin)


def test_lane_begins_at_start_of_log() -> None:
    """Without a progress a topic begins where its log starts; what an earlier assignment left over is no beginning."""
    lane = _lane(STARTS | {GPU_SAMPLES: 40, POD_EVENTS: 7})
    lane.feed([_clock(43), _clock(7, POD_EVENTS)])
    assert (lane.expected[GPU_SAMPLES], lane.expected[POD_EVENTS]) == (40, 8)
    lane.feed([_clock(40), _clock(41)])
    assert lane.expected[GPU_SAMPLES] == 42


def test_message_below_expected_is_passed_over() -> None:
    """A message that comes again is not fed again."""
    lane = _lane()
    lane.feed([_clock(0), _clock(1)])
    before = lane.meter.metrics()["records"]
    lane.feed([_clock(0), _clock(1), _clock(2)])
    assert lane.meter.metrics()["records"] == before + 1


def test_gap_is_never_fed() -> None:
    """A message beyond the expected offset is left out and noted with both offsets, until the expected one comes."""
    lane = _lane()
    lane.feed([_clock(0), _clock(1), _clock(3)])
    assert lane.gaps == {GPU_SAMPLES: Gap(GPU_SAMPLES, 0, 2, 3)}
    assert lane.expected[GPU_SAMPLES] == 2
    lane.feed([_clock(2)])
    assert lane.gaps == {}
    assert (lane.expected[GPU_SAMPLES], lane.meter.metrics()["records"]) == (3, 3)


def test_lane_goes_on_behind_a_hole_of_the_log() -> None:
    """Where the log itself has nothing between two offsets, the lane takes the later one; every jump is named."""
    lane = _lane()
    messages = [_clock(0), _clock(2), _clock(5), _clock(3)]
    assert lane.jumps(messages) == [Gap(GPU_SAMPLES, 0, 1, 2), Gap(GPU_SAMPLES, 0, 4, 5)]
    lane.holes.add(Gap(GPU_SAMPLES, 0, 1, 2))
    lane.feed(messages)
    assert (lane.expected[GPU_SAMPLES], lane.meter.metrics()["records"]) == (4, 3)
    assert lane.gaps == {GPU_SAMPLES: Gap(GPU_SAMPLES, 0, 4, 5)}


def test_order_within_a_batch_does_not_matter() -> None:
    """Messages of one batch are fed in the order of their offsets."""
    lane = _lane()
    assert lane.feed([_clock(1), _clock(0), _clock(2)]) == []
    assert lane.expected[GPU_SAMPLES] == 3


def test_unchanged_progress_is_saved_once() -> None:
    """A progress that was saved is not saved again until it changes, and slots alternate."""
    lane = _lane()
    lane.feed([_clock(offset, topic) for topic in INPUT_TOPICS for offset in range(3)])
    saved = lane.unsaved()
    assert saved is not None
    pointer = lane.note_saved(saved, [11])
    assert lane.unsaved() is None
    lane.feed([_clock(offset) for offset in range(3, 8)])
    following = lane.unsaved()
    assert following is not None
    assert (pointer.slot, following.slot) == (0, 1)


def test_lane_goes_on_at_its_progress() -> None:
    """A lane that starts from a progress expects exactly the offsets that it names."""
    lane = _lane()
    lane.feed([_clock(offset, topic) for topic in INPUT_TOPICS for offset in range(6)])
    progress = lane.meter.progress()
    assert progress is not None
    again = _lane(progress)
    assert again.expected == progress.offsets
    again.feed([_clock(progress.offsets[GPU_SAMPLES] + 1)])
    assert again.gaps[GPU_SAMPLES].expected == progress.offsets[GPU_SAMPLES]


def test_pointer_says_how_far_the_partition_was_read() -> None:
    """A saved progress names the place that was reached, and one saved while reading again never an earlier place."""
    lane = _lane()
    lane.feed([_clock(offset, topic) for topic in INPUT_TOPICS for offset in range(6)])
    saved = lane.unsaved()
    assert saved is not None
    assert lane.note_saved(saved, [1]).reached == dict.fromkeys(INPUT_TOPICS, 6)
    again = open_lane(0, 2, SETTINGS, "id", saved.progress, {GPU_SAMPLES: 9, POD_EVENTS: 2})
    assert again.reread_left() == 9 - saved.progress.offsets[GPU_SAMPLES] + max(0, 2 - again.expected[POD_EVENTS])
    again.feed([_clock(saved.progress.offsets[GPU_SAMPLES])])
    following = again.unsaved()
    assert following is not None
    assert again.note_saved(following, [2]).reached[GPU_SAMPLES] == 9


def test_lane_that_took_nothing_saves_nothing() -> None:
    """A lane opened before its first message leaves the progress that it goes on from as it is."""
    lane = _lane()
    lane.feed([_clock(offset, topic) for topic in INPUT_TOPICS for offset in range(6)])
    progress = lane.meter.progress()
    assert progress is not None
    again = _lane(progress)
    assert again.unsaved() is None
    again.feed([_clock(progress.offsets[GPU_SAMPLES])])
    assert again.unsaved() is not None


def test_revisions_that_time_was_up_for_are_left_to_be_made() -> None:
    """A lane whose time was up says that more is to be made, and makes it without another message."""
    log, lane = make_log(1), _lane()
    lane.feed([Received(topic, 0, 1, record) for topic, records in log.items() for record in records])
    assert list(lane.closed())

    def read(_: int, topic: str, first: int, last: int) -> tuple[list[LogRecord], int]:
        return log[topic][first:last], last

    assert list(lane.revised(read, lambda: True)) == []
    assert lane.unfinished
    assert list(lane.revised(read, lambda: False))
    assert not lane.unfinished
