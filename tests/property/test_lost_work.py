"""Crashes that lose hours of work: nodes live, fall silent, end and come back, and every copy of a row is the same."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.meter import PartitionMeter
from tests.property.drive import SOURCE, content, drain
from tests.property.lives import SHORT, lives_log
from tests.property.workload import SECOND, START

SEEDS = st.integers(0, 10_000)


def _live_through(log, rng=None, crashes=0):
    """Tables published over a log, in slices of some minutes; a crash may lose all that was done since long ago."""
    meter, tables, saved, to_us = PartitionMeter(SHORT, SOURCE), [], None, START
    last_us = max(log[topic][-1].append_us for topic in TOPICS)
    while to_us <= last_us:
        to_us += (rng.randrange(30, 900) if rng else 600) * SECOND
        topics = rng.sample(TOPICS, rng.choice([2, 3, 3])) if rng and to_us <= last_us else TOPICS
        while left := [topic for topic in topics if _next(log, meter, topic, 1, to_us)]:
            for topic in left:
                meter.feed(topic, _next(log, meter, topic, rng.choice([5, 50, 300]) if rng else 100, to_us))
            tables += drain(meter, log)
        if rng and rng.random() < 0.1:
            saved = meter.progress() or saved
        if crashes and rng.random() < 0.15:
            crashes -= 1
            meter = PartitionMeter(SHORT, SOURCE, saved)
    return content(tables)


def _next(log, meter, topic, most, to_us):
    at = meter.position[topic]
    return [record for record in log[topic][at : at + most] if record.append_us < to_us]


@settings(max_examples=5, deadline=None)
@given(SEEDS, SEEDS)
@example(8, 1)  # revisions more than an hour behind, after what they need could be forgotten
@example(1, 0)  # a node that is over before the place that is read again, and one that is met there
def test_crash_that_loses_hours_of_work_changes_no_row(seed: int, order: int) -> None:
    """First results and revisions are those of an undisturbed run, and so is each of their copies."""
    log = lives_log(seed)
    expected = {key: copies[0] for key, copies in _live_through(log).items()}
    found = _live_through(log, random.Random(order), crashes=8)
    assert found.keys() == expected.keys()
    assert all(copy == expected[key] for key, copies in found.items() for copy in copies)
