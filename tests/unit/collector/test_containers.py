"""Processes of containers from the files of a cgroup tree."""

import shutil
from pathlib import Path

import pytest

from collector.cgroup import CgroupIdentity
from collector.containers import FULL_EVERY, Containers

U, U2 = "6a4ce4a0-ba47-11ea-b2a7-0cc47ac5979e", "0ec90011-b5ae-4efc-8a54-d9fc34119605"
A, B = "a" * 64, "b" * 64


def _scope(root: Path, uid: str, container: str, level: str = "burstable-") -> Path:
    pod = f"kubepods-{level}pod{uid.replace('-', '_')}.slice"
    middle = f"kubepods-{level[:-1]}.slice" if level else "."
    return root / "kubepods.slice" / middle / pod / f"cri-containerd-{container}.scope"


def _processes(scope: Path, *pids: int) -> None:
    scope.mkdir(parents=True, exist_ok=True)
    (scope / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A cgroup v2 tree with the kubelet's classes, all empty."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    for level in ("kubepods-burstable.slice", "kubepods-besteffort.slice"):
        (tmp_path / "kubepods.slice" / level).mkdir(parents=True)
    (tmp_path / "system.slice" / "sshd.service").mkdir(parents=True)
    return tmp_path


def test_containers_tell_what_came_and_went(root: Path) -> None:
    """Pids that appear in a container's file arrive with pod and container, and those that vanish leave."""
    containers = Containers(str(root))
    assert containers.scan() == ([], [], 0)
    _processes(_scope(root, U, A), 10, 11)
    assert containers.scan() == ([(10, (U, A)), (11, (U, A))], [], 1)
    assert containers.scan() == ([], [], 0)
    _processes(_scope(root, U, A), 11, 12)
    assert containers.scan() == ([(12, CgroupIdentity(U, A))], [10], 0)
    shutil.rmtree(_scope(root, U, A).parent)
    changes = containers.scan()
    assert (changes.arrived, sorted(changes.left)) == ([], [11, 12])


def test_containers_in_an_emptied_class_are_seen(root: Path) -> None:
    """A pod in a QoS class that was empty for a while is seen at the next scan, not at the next full listing."""
    containers = Containers(str(root))
    _processes(_scope(root, U, A), 10)
    containers.scan()
    for uid in (U2, "11111111-2222-3333-4444-555555555555"):
        scope = _scope(root, uid, B, "besteffort-")
        _processes(scope, 20)
        assert [pid for pid, _ in containers.scan().arrived] == [20]
        shutil.rmtree(scope.parent)
        assert containers.scan().left == [20]


def test_containers_below_a_container_belong_to_it(root: Path) -> None:
    """Processes in a group below the container's own (crun, systemd in a pod) are the container's."""
    scope = _scope(root, U, A, "")
    _processes(scope)
    containers = Containers(str(root))
    containers.scan()
    _processes(scope / "container", 30)
    assert containers.scan().arrived == [(30, CgroupIdentity(U, A))]


def test_containers_of_the_monitor_and_the_host_are_not_watched(root: Path) -> None:
    """The runtime's monitor beside the workload and services of the host report nothing."""
    _processes(_scope(root, U, A).with_name(f"crio-conmon-{B}.scope"), 40)
    (root / "system.slice" / "sshd.service" / "cgroup.procs").write_text("50\n")
    assert Containers(str(root)).scan().arrived == []


def test_containers_full_listing_finds_what_times_hid(root: Path) -> None:
    """A container whose directory changed nothing that is watched is found within a minute of scans."""
    containers = Containers(str(root))
    containers.scan()
    _processes(root / "other.slice" / "deep" / f"pod{U}" / A, 60)
    arrived = [pid for _ in range(FULL_EVERY) for pid, _ in containers.scan().arrived]
    assert arrived == [60]


def test_containers_read_one_hierarchy_of_v1(tmp_path: Path) -> None:
    """On cgroup v1 one hierarchy is read, so that a process is not reported by each controller."""
    for controller in ("cpu", "pids", "memory"):
        _processes(tmp_path / controller / "kubepods" / f"pod{U}" / A, 70)
    assert Containers(str(tmp_path)).scan().arrived == [(70, CgroupIdentity(U, A))]


def test_containers_without_a_tree_are_none(tmp_path: Path) -> None:
    """A tree that is not there has no containers and breaks nothing."""
    assert Containers(str(tmp_path / "absent")).scan() == ([], [], 0)


def test_containers_long_lists_are_read_whole(root: Path) -> None:
    """More pids than one read gives are all read."""
    _processes(_scope(root, U, A), *range(100_000, 120_000))
    assert len(Containers(str(root)).scan().arrived) == 20_000


def test_containers_without_processes_cost_no_listing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose own group stays empty is listed once, and again only when it changed."""
    _processes(_scope(root, U, A, ""))
    containers = Containers(str(root))
    containers.scan()
    listed: list[str] = []
    monkeypatch.setattr("collector.containers._directories", lambda path: listed.append(path) or [])
    for _ in range(5):
        containers.scan()
    assert listed == []
