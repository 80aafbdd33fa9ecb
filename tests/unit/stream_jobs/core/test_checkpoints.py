"""What a meter remembers to begin from, while something holds progress back."""

import random
from functools import partial

import pytest

from schemas.names import GPU_SAMPLES
from stream_jobs.core import checkpoints
from stream_jobs.core.checkpoints import Checkpoints
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.test_late_pieces import clock, reading


@pytest.mark.parametrize("most", [2, 3, 32])
def test_checkpoints_are_bounded_and_keep_the_one_to_begin_from(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long progress is pinned, few are kept, among them the newest at or below what is needed and the last."""
    monkeypatch.setattr(checkpoints, "MOST", most)
    rng, known, needed, added = random.Random(most), Checkpoints(), 0, []
    for offset in range(0, 5000, 10):
        known.add(offset, [], partial(int, needed))
        added.append(offset)
        assert len(known.kept) <= most
        assert known.kept[-1].samples_offset == offset
        if rng.random() < 0.05:
            needed = rng.randrange(needed, offset + 1)
        kept = [c.samples_offset for c in known.kept]
        begin = known.newest(needed)
        assert begin is not None
        assert begin.samples_offset == max(o for o in kept if o <= needed)


def test_newest_checkpoint_below_what_is_needed_is_never_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what is needed known beforehand, thinning drops those around it and never it."""
    monkeypatch.setattr(checkpoints, "MOST", 5)
    known = Checkpoints()
    for offset in range(1000):
        known.add(offset, [], partial(min, offset, 30))
        begin = known.newest(min(offset, 30))
        assert begin is not None
        assert begin.samples_offset == min(offset, 30)


def test_a_reading_far_ahead_does_not_pile_up_carries() -> None:
    """While a node a day ahead pins progress, hours of clocks leave a bounded number of packed carries."""
    meter = PartitionMeter(MeterSettings(simulated_time=True), Source(0))
    far_s = 86_000
    meter.feed(GPU_SAMPLES, [clock(GPU_SAMPLES, 0, 0), reading(1, 0, far_s, far_s + 5, far_s + 5)])
    meter.feed(GPU_SAMPLES, [clock(GPU_SAMPLES, 1 + i, 15 * i) for i in range(1, 1000)])
    assert len(meter._checkpoints.kept) <= 32
    progress = meter.progress()
    assert progress is not None
    assert progress.offsets[GPU_SAMPLES] == 1
