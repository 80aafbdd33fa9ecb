"""Who the processes of a reading are, over real files of a /proc and a cgroup tree."""

from pathlib import Path

import pytest

from collector.containers import Containers
from collector.procfs import TICKS_PER_SECOND, ProcFs
from collector.roster import Roster
from collector.sampling import DeviceReading, ProcessRow

U, A, B = "6a4ce4a0-ba47-11ea-b2a7-0cc47ac5979e", "a" * 64, "b" * 64
BOOT_US = 1_800_000_000_000_000
SECOND = 1_000_000


class Node:
    """Files of a node; one container cgroup."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.scope = root / "cgroup" / "kubepods" / f"pod{U}" / A
        self.scope.mkdir(parents=True)
        self.in_container: set[int] = set()
        self.roster = Roster(ProcFs(str(self.proc)), Containers(str(root / "cgroup")))

    def start(self, pid: int, second: float, path: str) -> int:
        """A process; its start in ticks."""
        ticks = int(second * TICKS_PER_SECOND)
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = " ".join(["S", *["0"] * 18, str(ticks), "0"])
        (folder / "stat").write_text(f"{pid} (a) b (c)) {fields}\n")
        (folder / "cgroup").write_text(f"0::{path}\n")
        if A in path:
            self.in_container.add(pid)
            self._list()
        return ticks

    def end(self, pid: int) -> None:
        """The process is gone."""
        for name in ("stat", "cgroup"):
            (self.proc / str(pid) / name).unlink()
        self.in_container.discard(pid)
        self._list()

    def _list(self) -> None:
        (self.scope / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in sorted(self.in_container)))

    def name(self, second: float, *rows: ProcessRow) -> list[tuple[int, int]]:
        """What a reading's rows are: (pid, start ticks)."""
        reading = DeviceReading("G", 0, "", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, list(rows))
        [found] = self.roster.identify([reading], int(second * SECOND), BOOT_US)
        return [(one.row.pid, one.start_ticks) for one in found]

    def kinds(self, second: float) -> dict[tuple[int, int], str]:
        """The snapshot: kind and reason or pod of each process."""
        return {
            (p.pid, p.start_ticks): f"{p.kind} {p.reason or p.pod_uid}".strip()
            for p in self.roster.named(int(second * SECOND))
        }


CONTAINER = f"/kubepods/pod{U}/{A}"


def _row(pid: int, seen_second: float = 0, lists: int = 1) -> ProcessRow:
    seen_us = BOOT_US + int(seen_second * SECOND) if seen_second else 0
    return ProcessRow(pid, seen_us, 5, 0, 0, 0, 100, lists, -1, -1)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An empty node."""
    return Node(tmp_path)


def test_roster_names_living_processes(node: Node) -> None:
    """A process in a container, one of a container without a pod and one of the host are told apart."""
    first = node.start(10, 1, CONTAINER)
    second = node.start(11, 2, "/user.slice/session-3.scope")
    third = node.start(12, 3, f"/system.slice/docker-{B}.scope")
    assert node.name(5, _row(10), _row(11), _row(12)) == [(10, first), (11, second), (12, third)]
    assert node.kinds(5) == {(10, first): f"container {U}", (11, second): "host", (12, third): "container"}


def test_roster_knows_a_process_that_lived_two_seconds(node: Node) -> None:
    """A process that only a scan of the containers saw is named with its container when the ring names it later."""
    ticks = node.start(10, 1, CONTAINER)
    node.roster.watch(1 * SECOND)
    node.end(10)
    node.roster.watch(3 * SECOND)
    assert node.name(5, _row(10, 2.5, lists=0)) == [(10, ticks)]
    assert node.kinds(5) == {(10, ticks): f"container {U}"}


def test_roster_row_of_nobody_is_kept_with_its_reason(node: Node) -> None:
    """A pid that is not in /proc keeps its row: gone where only samples name it, unmapped where the driver lists it."""
    assert node.name(5, _row(114855, 4, lists=0), _row(114856)) == [(114855, -1), (114856, -1)]
    assert node.kinds(5) == {(114855, -1): "unknown gone", (114856, -1): "unknown unmapped"}


def test_roster_pid_used_again_is_two_processes(node: Node) -> None:
    """Samples that name a pid before its present process began are the earlier process's, its memory the present's."""
    earlier = node.start(10, 1, CONTAINER)
    node.roster.watch(1 * SECOND)
    node.end(10)
    later = node.start(10, 8, "/user.slice/session-3.scope")
    node.roster.watch(9 * SECOND)
    assert node.name(10, _row(10, seen_second=5)) == [(10, earlier), (10, later)]
    assert node.kinds(10) == {(10, earlier): f"container {U}", (10, later): "host"}
    assert node.name(15, _row(10, seen_second=14)) == [(10, later)]


def test_roster_every_named_process_is_in_the_snapshot(node: Node) -> None:
    """Whatever rows a reading has, the snapshot after it knows all their processes."""
    node.start(10, 1, CONTAINER)
    node.start(11, 1, "/")
    named = node.name(5, _row(10), _row(11, 4, 0), _row(12), _row(13, 4, 0))
    assert set(named) == set(node.kinds(5))
