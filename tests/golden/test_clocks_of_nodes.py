"""Clocks that are wrong: each has a defined result and a flag, and nobody else pays for it."""

from tests.golden.story import SECOND, UID, Story

HOUR = 3600
MAIN = f"{UID}/main"


def told(story: Story, end_s: int) -> Story:
    """The clock, one pod and its snapshots up to a time."""
    story.clocks(end_s)
    story.pod(-100, 0)
    story.snapshot(0)
    return story


def test_node_an_hour_ahead_is_metered_in_its_own_time_and_says_so() -> None:
    """Its windows wait for the cluster's clock, not the other way round; they carry clock_ahead, and all is counted."""
    story = told(Story(), 2 * HOUR)
    for at in range(0, 600, 60):
        story.snapshot(at + HOUR, at, number=2 + at // 60)
    for at in range(0, 600, 5):
        story.reading(at + HOUR, at + HOUR + 5, at + 5, mapping=2 + at // 60)
    rows = story.newest()
    own = {at: row for (at, holder), row in rows.items() if holder == MAIN and row["used_us"]}
    assert set(own) == set(range(HOUR, HOUR + 600, 60))
    assert {row["used_us"] for row in own.values()} == {60 * SECOND}
    assert all("clock_ahead" in row["flags"] and row["revision"] == 0 for row in own.values())
    assert not any(at < HOUR for at, _ in rows), "no device was listed before"


def test_node_two_hours_behind_is_metered_by_revisions() -> None:
    """Its windows were closed without it, so each comes as a revision of the reason late_reading."""
    story = told(Story(), 3 * HOUR)
    story.snapshot(2 * HOUR, number=2)
    for at in range(0, 600, 5):
        story.reading(at, at + 5, at + 2 * HOUR + 5)
    rows = story.newest()
    own = {at: row for (at, holder), row in rows.items() if holder == MAIN and row["used_us"]}
    assert set(own) == set(range(0, 600, 60))
    assert {row["used_us"] for row in own.values()} == {60 * SECOND}
    assert all("late_reading" in row["flags"] and row["revision"] > 0 for row in own.values())
    assert sum(row["d_used_us"] for row in story.rows() if row["holder"] == MAIN and row["at"] == 60) == 60 * SECOND


def test_clock_that_steps_back_counts_no_time_twice() -> None:
    """After a step back of five minutes a new boot segment reports the same times again: the first counts, flagged."""
    story = told(Story(), 1500)
    story.snapshot(305, number=1, boot="b2")
    for at in range(0, 300, 5):
        story.reading(at, at + 5)
    for at in range(0, 600, 5):
        story.reading(at, at + 5, at + 305, boot="b2", points=0)
    rows = story.newest()
    for at in range(0, 600, 60):
        spent = sum(row["charged_us"] for (start, _), row in rows.items() if start == at)
        assert spent == 60 * SECOND
        used = rows[at, MAIN]["used_us"] if (at, MAIN) in rows else 0
        assert used == (60 * SECOND if at < 300 else 0)
    assert all("duplicate_collector" in rows[at, MAIN]["flags"] for at in range(0, 300, 60))


def test_clock_that_steps_forward_leaves_a_hole_that_is_unobserved() -> None:
    """Ten minutes that never were on this node are unobserved, not idle, and what follows is metered."""
    story = told(Story(), 2400)
    for at in range(0, 120, 5):
        story.reading(at, at + 5)
    for at in range(120, 240, 5):
        story.reading(at + 600, at + 605, at + 605, boot="b2")
    story.snapshot(725, boot="b2")
    rows = story.newest()
    assert rows[60, MAIN]["used_us"] == 60 * SECOND
    assert rows[300, "unobserved"]["charged_us"] == 60 * SECOND and "silent" in rows[300, "unobserved"]["flags"]
    assert rows[780, MAIN]["used_us"] == 60 * SECOND


def test_collector_that_runs_twice_counts_once_and_says_so() -> None:
    """Two collectors of one boot report the same time: the older epoch counts, the window is flagged."""
    story = told(Story(), 900)
    for at in range(0, 300, 5):
        story.reading(at, at + 5)
        story.reading(at, at + 5, at + 6, epoch=2)
    rows = story.newest()
    assert rows[60, MAIN]["used_us"] == 60 * SECOND
    assert "duplicate_collector" in rows[60, MAIN]["flags"]


def test_collector_that_restarts_loses_only_the_time_it_was_away() -> None:
    """A newer epoch asserts from its first message on; what the older still had in its spool is counted."""
    story = told(Story(), 1200)
    story.snapshot(100, number=9)
    for at in range(0, 100, 5):
        story.reading(at, at + 5, at + 5 if at < 90 else 140)
    for at in range(120, 300, 5):
        story.reading(at, at + 5, epoch=2, mapping=1)
    rows = story.newest()
    assert rows[60, "unobserved"]["charged_us"] == 20 * SECOND
    assert rows[60, MAIN]["used_us"] == 40 * SECOND
    assert "duplicate_collector" not in rows[60, MAIN]["flags"]
    assert rows[120, "unattributed"]["charged_us"] == 60 * SECOND
