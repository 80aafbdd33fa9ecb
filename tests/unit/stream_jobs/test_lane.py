import pytest

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS
from stream_jobs.core.carry import Progress
from stream_jobs.core.meter import LogRecord
from stream_jobs.core.settings import MeterSettings
from stream_jobs.lane import GapError, Lane, Received, open_lane

SETTINGS = MeterSettings(simulated_time=True)
HEADERS = encode_headers(Headers(record=CLOCK, cluster="c"))


def _clock(offset: int, topic: str = GPU_SAMPLES) -> Received:
    payload = encode_clock(ClockRecord(cluster="c", now_us=1_790_000_000_000_000 + offset * 5_000_000), b"", topic, 0)
    return Received(topic, 0, 1, LogRecord(offset, 0, HEADERS, payload))


def _lane(progress: Progress | None = None) -> Lane:
    return open_lane(0, 1, SETTINGS, "id", progress)


def test_lane_begins_at_whatever_comes_first() -> None:
    """Without a progress the first message of a topic is taken, also in the middle of the log."""
    lane = _lane()
    assert lane.feed([_clock(40), _clock(41), _clock(7, POD_EVENTS)]) == []
    assert lane.expected == {GPU_SAMPLES: 42, POD_EVENTS: 8}


def test_message_below_expected_is_passed_over() -> None:
    """A message that comes again is not fed again."""
    lane = _lane()
    lane.feed([_clock(0), _clock(1)])
    before = lane.meter.metrics()["records"]
    lane.feed([_clock(0), _clock(1), _clock(2)])
    assert lane.meter.metrics()["records"] == before + 1


def test_gap_is_never_fed() -> None:
    """A message beyond the expected offset is a gap that names both offsets."""
    lane = _lane()
    lane.feed([_clock(0)])
    with pytest.raises(GapError) as gap:
        lane.feed([_clock(1), _clock(3)])
    assert (gap.value.expected, gap.value.found) == (2, 3)


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
    with pytest.raises(GapError):
        again.feed([_clock(progress.offsets[GPU_SAMPLES] + 1)])
