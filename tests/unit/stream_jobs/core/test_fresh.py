"""Which nodes are shown anew, in which order, and how often."""

from stream_jobs.core.fresh import Fresh


def test_fresh_takes_who_waited_longest_and_nobody_too_often() -> None:
    """First touched, first taken; a node that was just taken waits, whatever comes, and then shows all of it."""
    fresh = Fresh()
    for node, start in (("a", 10), ("b", 20), ("a", 5), ("c", 30)):
        fresh.touch(node, start, start + 1)
    assert fresh.take(2, 100.0, 2.0) == [("a", (5, 11)), ("b", (20, 21))]
    fresh.touch("a", 50, 60)
    fresh.touch("a", 70, 80)
    assert fresh.take(9, 101.0, 2.0) == [("c", (30, 31))]
    assert fresh.take(9, 101.9, 2.0) == []
    assert fresh.take(9, 102.0, 2.0) == [("a", (50, 80))]
    assert fresh.take(9, 200.0, 2.0) == []


def test_fresh_that_nobody_takes_stays_small() -> None:
    """However many readings come, there is one entry a node."""
    fresh = Fresh()
    for n in range(1000):
        fresh.touch(f"n{n % 3}", n, n + 1)
    assert fresh.touched == {"n0": (0, 1000), "n1": (1, 998), "n2": (2, 999)}
