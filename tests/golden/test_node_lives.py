"""A node ends, and records of it come after that or before its first reading: all readers of the log find the same."""

import pytest
from msgspec.structs import replace

from schemas.clock import ClockRecord, encode_clock
from schemas.gaps import Gap, encode_gap
from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS, POD_EVENTS, POD_MAPPINGS
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.story import SECOND, START, Story
from tests.property.drive import drain

REACH_S = 1800
SETTINGS = MeterSettings(reach_us=REACH_S * SECOND)


class Reader:
    """Reads a story's log by append time, some topics later than others, and keeps what is published."""

    def __init__(self, story: Story, settings: MeterSettings = SETTINGS, **behind_s: int) -> None:
        self.log, self.settings, self.behind_s = story.log(), settings, behind_s
        self.meter = PartitionMeter(settings, Source(0))
        self.rows: list[tuple] = []

    def read(self, first_s: int, last_s: int, step_s: int = 60) -> "Reader":
        """Reads on from one time to another, a step at a time; pod-events may be `events` and mappings behind."""
        for to_s in range(first_s, last_s + step_s, step_s):
            for topic, name in ((GPU_SAMPLES, "samples"), (POD_MAPPINGS, "mappings"), (POD_EVENTS, "events")):
                to_us = START + (to_s - self.behind_s.get(name, 0)) * SECOND
                records = self.log[topic][self.meter.position[topic] :]
                refused = self.meter.feed(topic, [record for record in records if record.append_us < to_us])
                assert {letter.reason for letter in refused} <= {"late"}
            tables = [table for table in drain(self.meter, self.log) if table.num_rows]
            self.rows += [_row(row) for table in tables for row in table.to_pylist()]
            self.saved = self.meter.progress()
        return self

    def revised(self) -> set[tuple[int, int]]:
        """(window, minute) of the revisions, in seconds after START."""
        return {(at, minute) for at, minute, *_ in self.rows if minute}


def _row(row: dict) -> tuple:
    at, minute = (row["window_start_us"] - START) // SECOND, row["revision"] and (row["revision"] - START) // SECOND
    return at, minute, row["node"], row["holder"], row["used_us"], row["charged_us"], tuple(row["flags"])


def test_pod_record_after_the_end_revises_the_last_windows_and_holds_nothing_up() -> None:
    """What is late for windows from before the end is made good; the windows that nobody opens are not waited for."""
    story = Story()
    story.clocks(12000)
    story.snapshot(0)
    story.snapshot(390, number=2)
    for at in range(100, 400, 20):
        story.reading(at, at + 20)
    story.pod(1500, 2600)
    reader = Reader(story).read(0, 12000)
    assert reader.revised() == {(at, 2640) for at in range(1500, 2220, 60)}
    (cluster,) = reader.meter._clusters.values()
    assert (len(cluster.nodes), cluster.late_nodes | cluster.waiting_nodes) == (0, set())
    assert cluster.forgotten.clock_us > START + 11900 * SECOND


@pytest.mark.parametrize("behind_s", [0, 600])
def test_pod_record_before_the_first_late_readings_waits_for_their_windows(behind_s: int) -> None:
    """A record that is late for windows which a node's first readings open later makes their revisions."""
    story = Story()
    story.clocks(3600)
    story.snapshot(600)
    for at in range(600, 1800, 20):
        story.reading(at, at + 20, max(at + 20, 1200))
    story.pod(590, 960)
    reader = Reader(story, MeterSettings(), events=behind_s).read(0, 3600 + behind_s, 20)
    assert reader.revised() == {(at, 1020) for at in (600, 660, 720, 780)}


@pytest.mark.parametrize("behind_s", [0, 300])
def test_gap_told_before_a_life_says_nothing_of_its_end(behind_s: int) -> None:
    """A gap of a spool ahead of the clock, told while no life is on, does not lengthen the one that comes."""
    story = Story()
    story.clocks(14000)
    gap = Gap(epoch_us=1, first_seq=1, last_seq=1, start_us=START + 6000 * SECOND, end_us=START + 9000 * SECOND)
    headers = Headers(record="gap", cluster="c", node="n", boot_id="b", epoch_us=1, seq=1000, complete_to_us=0)
    story.add(GPU_SAMPLES, 4990, headers, encode_gap(gap))
    story.snapshot(4985)
    for at in range(5050, 5300, 20):
        story.reading(at, at + 20)
    for at in range(9500, 9560, 20):
        story.reading(at, at + 20, 10150)
    reader = Reader(story, mappings=behind_s).read(0, 14000 + behind_s, 20)
    assert {at for at, minute, *_ in reader.rows if 9480 <= at < 9600 and minute == 0} == {9480, 9540}
    assert not reader.revised()


def test_late_time_between_two_lives_is_the_next_ones() -> None:
    """Two boots of the new life that report one time count in its order, whether the old life is remembered or not."""
    story, back = Story(), 30000
    story.clocks(34000)
    for at in range(100, 300, 20):
        story.reading(at, at + 20, boot="old")
    story.reading(back, back + 20, boot="b1", epoch=900)
    story.reading(back - 3000, back - 2980, back + 40, boot="b1", epoch=900, points=3000)
    story.reading(back - 3000, back - 2980, back + 45, boot="b2", epoch=20, points=1500)
    for at in range(back + 60, back + 900, 20):
        story.reading(at, at + 20, boot="b2", epoch=20)
    settings = MeterSettings(reach_us=7200 * SECOND)
    whole = Reader(story, settings).read(0, 34000)
    crashed = Reader(story, settings).read(0, 600)
    saved = crashed.saved
    crashed.read(660, back + 60)
    assert len(crashed.meter._clusters["c"].nodes["n"].lives) == 1
    crashed.meter = PartitionMeter(settings, Source(0), saved)
    for topic in INPUT_TOPICS:
        records = crashed.log[topic][crashed.meter.position[topic] :]
        crashed.meter.feed(topic, [record for record in records if record.append_us < START + (back + 60) * SECOND])
    assert len(crashed.meter._clusters["c"].nodes["n"].lives) == 2
    crashed.read(back + 60, 34000)
    assert whole.revised() == {(27000, 30060)} and set(crashed.rows) == set(whole.rows)


def test_assertion_from_before_a_long_outage_of_the_watcher_counts_no_older_gaps() -> None:
    """A node whose first message tells of hours ago is silent or not by what came since its first window."""
    story = Story()
    story.clocks(200)
    for topic in INPUT_TOPICS:
        for at in range(200, 16000, 15):
            clock = encode_clock(ClockRecord(cluster="c", now_us=START + at * SECOND, override=True), b"", topic, 0)
            story.add(topic, at, Headers(record="clock", cluster="c"), clock)
    for at in range(100, 200, 20):
        story.reading(at, at + 20, 12000 + at / 100)
    for at in range(12000, 12600, 20):
        story.reading(at, at + 20, 12500 + at / 100 if at < 12400 else at + 260)
    found = [Reader(story).read(0, 16000, step_s).rows for step_s in (60, 16000)]
    assert found[0] and set(found[0]) == set(found[1])


def test_nothing_of_a_forgotten_cluster_goes_into_later_progress() -> None:
    """A cluster without a clock for the reach leaves no closed windows behind in the record of where to begin."""
    story = Story()
    story.clocks(9000)
    for at in range(0, 900, 5):
        for topic in INPUT_TOPICS:
            clock = encode_clock(ClockRecord(cluster="d", now_us=START + at * SECOND), b"", topic, 0)
            story.add(topic, at, Headers(record="clock", cluster="d"), clock)
    other = Story()
    for at in range(100, 800, 20):
        other.reading(at, at + 20)
    for at, _, headers, payload in other.items[GPU_SAMPLES]:
        story.add(GPU_SAMPLES, at, replace(headers, cluster="d"), payload)
    reader = Reader(story).read(0, 900)
    reader.meter = PartitionMeter(SETTINGS, Source(0), reader.saved)
    reader.read(900, 9000)
    assert reader.meter.forgotten == ["d"]
    assert not reader.meter._closed_to and list(reader.meter.heard) == ["c"]
