"""The API server or the kubelet's news were late: what was unattributed or nameless is made good by revisions."""

from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.story import CONTAINER, SECOND, START, UID, Story
from tests.property.drive import drain

MAIN = f"{UID}/main"
NAMELESS = f"{UID}/id:{CONTAINER[:12]}"


def readings(story: Story, end_s: int) -> None:
    """Half busy from 0 on, every 5 s."""
    for at in range(0, end_s, 5):
        story.reading(at, at + 5, points=1500)


def test_pod_events_ten_minutes_late_name_the_pod() -> None:
    """While the clock went on without the API server, windows have a nameless holder; the pod's record renames it."""
    story = Story()
    story.clocks(1800)
    story.snapshot(0)
    readings(story, 900)
    story.pod(-50, 700)
    first = {(row["at"], row["holder"]): row for row in story.rows() if row["revision"] == 0}
    rows = story.newest()
    assert first[60, NAMELESS]["used_us"] == 30 * SECOND and "pod_unknown" in first[60, NAMELESS]["flags"]
    assert first[60, "unallocated"]["charged_us"] == 30 * SECOND
    for at in range(0, 480, 60):
        assert rows[at, MAIN]["charged_us"] == 60 * SECOND and rows[at, MAIN]["used_us"] == 30 * SECOND
        assert rows[at, NAMELESS]["charged_us"] == 0 and rows[at, NAMELESS]["d_used_us"] == -30 * SECOND
        assert rows[at, "unallocated"]["charged_us"] == 0
        assert "late_pod_event" in rows[at, MAIN]["flags"]
    assert rows[600, MAIN]["revision"] == 0


def test_end_of_a_container_told_late_gives_back_what_it_did_not_hold() -> None:
    """A container that ended ten minutes ago held nothing since; its idle time goes to nobody."""
    story = Story()
    story.clocks(1800)
    story.snapshot(0)
    story.pod(-50, 0)
    readings(story, 120)
    for at in range(120, 900, 5):
        story.reading(at, at + 5, points=0)
    story.pod(-50, 700, finished_s=120)
    rows = story.newest()
    assert rows[60, MAIN]["revision"] == 0
    assert rows[180, MAIN]["charged_us"] == 0 and rows[180, MAIN]["d_charged_us"] == -60 * SECOND
    assert rows[180, "unallocated"]["charged_us"] == 60 * SECOND


def test_snapshot_ten_minutes_late_attributes_what_was_unattributed() -> None:
    """Readings whose snapshot was not there are unattributed; the snapshot brings them home, with the reason."""
    story = Story()
    story.clocks(1800)
    story.pod(-50, 0)
    readings(story, 300)
    story.snapshot(0, 700)
    first = {(row["at"], row["holder"]): row for row in story.rows() if row["revision"] == 0}
    rows = story.newest()
    assert first[60, "unattributed"]["used_us"] == 30 * SECOND
    assert "snapshot_missing" in first[60, "unattributed"]["flags"]
    assert rows[60, MAIN]["used_us"] == 30 * SECOND and rows[60, "unattributed"]["charged_us"] == 0
    assert "late_snapshot" in rows[60, MAIN]["flags"]


def test_record_that_says_nothing_new_revises_nothing() -> None:
    """The hourly republication, and snapshots that come in time, leave every window at its first result."""
    story = Story()
    story.clocks(4200)
    story.pod(-50, 0)
    story.pod(-50, 3650)
    for number, at in enumerate(range(0, 3900, 60)):
        story.snapshot(at, at + 1, number=number)
    readings(story, 600)
    assert {row["revision"] for row in story.rows()} == {0}


def test_reading_beyond_the_reach_is_a_dead_letter_and_revises_nothing() -> None:
    """What comes more than the reach after its window is refused with its microseconds, and no row changes."""
    settings = MeterSettings(reach_us=3600 * SECOND)
    story = Story()
    story.clocks(5400)
    story.snapshot(0)
    story.pod(-50, 0)
    readings(story, 60)
    story.reading(65, 70, 5000)
    log, meter = story.log(), PartitionMeter(settings, Source(0))
    refused = [r for topic in (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS) for r in meter.feed(topic, log[topic])]
    assert [(r.reason, r.detail) for r in refused] == [
        ("late", "5000000 us of GPU time came more than 3600 s after their windows")
    ]
    while meter.close_ready() is not None:
        pass
    assert not meter.repairs.is_due()
    assert meter.counts["beyond_us"] == 5 * SECOND


def test_pod_that_started_in_a_window_is_late_for_it() -> None:
    """The window in whose middle a container began is made anew from there on, and no earlier one is."""
    story = Story()
    story.clocks(1800)
    story.snapshot(0)
    for at in range(100, 300, 5):
        story.reading(at, at + 5, points=1500)
    story.pod(100, 700)
    rows = story.newest()
    assert rows[60, MAIN]["used_us"] == 10 * SECOND and "late_pod_event" in rows[60, MAIN]["flags"]
    assert {row["at"] for row in story.rows() if row["revision"]} == set(range(60, 540, 60))


def test_late_news_of_a_silent_node_keeps_its_devices() -> None:
    """A window without a reading has the devices listed last before it, also when it is made anew."""
    story = Story()
    story.clocks(2400)
    story.snapshot(0)
    story.snapshot(590, number=2)
    readings(story, 120)
    for at in range(600, 900, 5):
        story.reading(at, at + 5, mapping=2)
    story.pod(-50, 0)
    story.pod(-50, 1500, finished_s=300)
    first = {(row["at"], row["holder"]): row for row in story.rows() if row["revision"] == 0}
    rows = story.newest()
    assert first[360, "unobserved"]["charged_us"] == rows[360, "unobserved"]["charged_us"] == 60 * SECOND
    assert first[360, MAIN]["held_us"] == 60 * SECOND
    assert rows[360, MAIN]["held_us"] == 0 and rows[360, MAIN]["d_held_us"] == -60 * SECOND
    assert rows[240, MAIN]["revision"] == 0


def test_copy_of_a_late_reading_shows_no_earlier_than_itself() -> None:
    """A window made anew for one late reading does not see another that comes a minute later, in any of its copies."""
    story = Story()
    story.clocks(1800)
    story.snapshot(0)
    story.pod(-50, 0)
    for at in (*range(0, 60, 5), *range(120, 900, 5)):
        story.reading(at, at + 5, seq=at)
    story.reading(60, 65, 402, seq=60)
    for number, arrives in enumerate((462, 463, 464)):
        story.reading(70, 75, arrives, seq=70)
        story.reading(80 + 5 * number, 85 + 5 * number, arrives + 0.5, seq=80 + 5 * number)
    used = {row["revision"]: row["used_us"] for row in story.rows() if (row["at"], row["holder"]) == (60, MAIN)}
    assert list(used.values()) == [None, 5 * SECOND, 25 * SECOND]


def test_number_that_came_before_is_a_duplicate_to_a_repair_too() -> None:
    """A reading under a number that another had, of another time, counts neither at first nor in a revision."""
    story = Story()
    story.clocks(900)
    story.snapshot(0)
    story.pod(-50, 0)
    for number, at in enumerate(range(0, 300, 5)):
        if at == 100:
            story.reading(400, 405, 100, seq=1000)
        if at == 105:
            story.reading(at, at + 5, seq=1000)
        elif at != 70:
            story.reading(at, at + 5, seq=number)
    story.reading(70, 75, 500, seq=14)
    rows = story.newest()
    assert "late_reading" in rows[60, MAIN]["flags"]
    assert rows[60, MAIN]["d_charged_us"] == 5 * SECOND
    assert rows[60, MAIN]["observed_us"] == 55 * SECOND


def test_reading_from_before_the_first_waits_until_its_window_is_due() -> None:
    """A late reading's minute may come before its window is due: the revision is made then, however the log is read."""
    story = Story()
    story.clocks(1800)
    story.snapshot(0)
    for at in range(100, 300, 5):
        story.reading(at, at + 5)
    story.reading(50, 55, 110)
    log, meter, found = story.log(), PartitionMeter(MeterSettings(), Source(0)), []
    for to_s in range(0, 1801, 5):
        for topic in (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS):
            meter.feed(topic, [record for record in log[topic] if record.append_us < START + to_s * SECOND])
        found += [row for table in drain(meter, log) for row in table.to_pylist()]
    revised = {row["window_start_us"]: row["revision"] for row in found if row["revision"]}
    assert revised == {START: START + 120 * SECOND}
    assert revised == {row["window_start_us"]: row["revision"] for row in story.rows() if row["revision"]}
