"""Identities of processes and the numbered snapshots of them."""

from collector.cgroup import CgroupIdentity
from collector.identity import KEEP_US, Identities, Snapshots, identified
from schemas.snapshots import Grant, ProcessIdentity

T = 1_000_000_000
A, B = CgroupIdentity("uid-a", "a" * 64), CgroupIdentity("uid-b", "b" * 64)


def _grant(pod: str) -> Grant:
    return Grant(gpu_uuid="GPU-0", slot="GPU-0", resource="r", namespace="n", pod_name=pod, container_name="c")


def test_identity_kind_follows_the_cgroup() -> None:
    """A path that names a pod or a container is a container's process, any other the host's."""
    assert identified(1, 5, A).kind == "container"
    assert identified(1, 5, CgroupIdentity("", "c" * 64)).kind == "container"
    assert identified(1, 5, CgroupIdentity("", "")).kind == "host"


def test_identity_stays_known_for_a_minute_after_it_left() -> None:
    """A process that left its container is known for 60 s more, and not longer."""
    known = Identities()
    known.learn(identified(7, 5, A), T, in_container=True)
    known.named(T + 10 * KEEP_US)
    assert known.start_before(7, None) == 5
    known.leave(7, T + 10 * KEEP_US)
    known.named(T + 11 * KEEP_US)
    assert known.start_before(7, None) == 5
    known.named(T + 11 * KEEP_US + 1)
    assert known.start_before(7, None) == -1


def test_identity_of_a_pid_used_again_is_another() -> None:
    """The same pid with another start time is another process, and the older one is found by its time."""
    known = Identities()
    known.learn(identified(7, 5, A), T)
    known.learn(identified(7, 9, B), T)
    assert (known.start_before(7, 9), known.start_before(7, None), known.start_before(7, 5)) == (5, 9, -1)
    known.name(7, 9, T)
    assert [process.pod_uid for process in known.named(T)] == ["uid-b"]


def test_snapshot_has_only_what_readings_name() -> None:
    """Processes that no reading named stay out of snapshots; named ones are in, in a fixed order, for a minute."""
    known = Identities()
    for pid in (9, 3, 5):
        known.learn(identified(pid, pid, A), T, in_container=True)
    known.name(9, 9, T)
    known.name(3, 3, T)
    assert [process.pid for process in known.named(T)] == [3, 9]
    assert known.named(T + KEEP_US + 1) == []


def test_snapshot_numbers_grow_by_one_on_change() -> None:
    """A new number comes with a change of processes, grants, slots or status, and not without."""
    series = Snapshots(60_000_000)
    process = ProcessIdentity(pid=1, start_ticks=2, kind="host")
    steps = [
        ([], [], "ok"), ([], [], "ok"), ([process], [], "ok"), ([process], [_grant("a")], "ok"),
        ([process], [_grant("a")], "unavailable"), ([process], [_grant("a")], "unavailable"),
    ]  # fmt: skip
    made = [series.next(processes, grants, [], status, T + n) for n, (processes, grants, status) in enumerate(steps)]
    assert [snapshot and snapshot.mapping_seq for snapshot in made] == [1, None, 2, 3, 4, None]


def test_snapshot_is_repeated_each_period_under_a_new_number() -> None:
    """Without any change a snapshot goes out each minute, whole and with the next number."""
    series = Snapshots(60_000_000)
    times = [T + n * 5_000_000 for n in range(25)]
    made = [snapshot for time_us in times if (snapshot := series.next([], [_grant("a")], [], "ok", time_us))]
    assert [(snapshot.mapping_seq, snapshot.taken_us - T) for snapshot in made] == [
        (1, 0),
        (2, 60_000_000),
        (3, 120_000_000),
    ]
    assert all(snapshot.grants for snapshot in made)


def test_snapshot_that_was_lost_is_made_again() -> None:
    """A snapshot that could not be queued is followed by another one at the next reading, without any change."""
    series = Snapshots(60_000_000)
    assert series.next([], [], [], "ok", T)
    series.lost()
    again = series.next([], [], [], "ok", T + 1)
    assert again is not None and again.mapping_seq == 2
