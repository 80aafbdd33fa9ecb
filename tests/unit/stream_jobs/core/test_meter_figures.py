"""What a meter says of itself, on a small fleet's log."""

from schemas.names import INPUT_TOPICS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.integration import fleet

MINUTE_US = 60_000_000


def _feed(meter: PartitionMeter, sent: list[fleet.Sent]) -> None:
    for topic in INPUT_TOPICS:
        own = [s for s in sent if s.topic == topic]
        begin = meter.position[topic]
        meter.feed(topic, [LogRecord(begin + i, 0, s.headers, s.payload) for i, s in enumerate(own)])


def _until(minutes: int) -> list[fleet.Sent]:
    """Everything of two nodes up to a minute, without the clock that runs on."""
    whole = list(fleet.messages(2, minutes, 1))
    beyond = fleet.RUN_ON_US // fleet.PERIOD_US * len(INPUT_TOPICS)
    return whole[: len(whole) - beyond + len(INPUT_TOPICS)]


def test_open_windows_and_watermark_follow_the_log() -> None:
    """Windows from the oldest not closed to the clock are open; the watermark is what the nodes asserted."""
    meter = PartitionMeter(MeterSettings(simulated_time=True), Source(0))
    assert "watermark_us" not in meter.metrics()
    _feed(meter, _until(10))
    found = meter.metrics()
    assert (found["nodes"], found["violations"]) == (2, 0)
    assert found["watermark_us"] == found["clock_us"]
    before = found["open_windows"]
    while meter.close_ready() is not None:
        pass
    after = meter.metrics()
    assert after["closed_to_us"] > found["closed_to_us"]
    assert after["clock_us"] - after["closed_to_us"] == 2 * MINUTE_US
    assert after["open_windows"] == 2 * 2 < before


def test_late_readings_are_counted_with_their_time() -> None:
    """A reading whose windows were cut before it came counts with the microseconds of each of its GPUs."""
    meter = PartitionMeter(MeterSettings(simulated_time=True), Source(0))
    sent = _until(10)
    late = next(s for s in sent if s.topic == "gpu-samples" and s.payload and b"reading" in dict(s.headers)["record"])
    _feed(meter, [s for s in sent if s is not late])
    _feed(meter, [late])
    found = meter.metrics()
    assert (found["readings_late"], found["late_us"]) == (1, fleet.GPUS * fleet.PERIOD_US)
