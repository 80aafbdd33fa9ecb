"""The node's /proc and cgroup v2 trees as real files, brought to a time by writing only what changed.

Owns the files that a node agent may read: of each process stat and cgroup, of each container cgroup.procs, of the node
boot id and boot time. Must not know the driver or who reads. Law: at every time the trees name exactly the processes
that live then (tests/unit/infra/sim/test_filesystem.py).
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .model import SimCluster, SimNode, SimPod, SimProcess
from .world import containers_on

INIT_PID_NAMESPACE = "pid:[4026531836]"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
HOST_CGROUP = "/user.slice/user-1000.slice/session-3.scope"
_MEMORY_DIRECTORY = Path("/dev/shm")
_END, _START = 0, 1


def start_ticks(process: SimProcess, boot_us: int) -> int:
    """Start time in clock ticks since boot, as field 22 of stat."""
    return (process.start_us - boot_us) * TICKS_PER_SECOND // 1_000_000


def scope_of(pod: SimPod, container_id: str) -> str:
    """The container's cgroup as containerd with the systemd driver names it; the QoS class differs by pod."""
    uid = pod.uid.replace("-", "_")
    level = ("", "burstable-", "besteffort-")[int(pod.uid[:2], 16) % 3]
    middle = f"/kubepods-{level[:-1]}.slice" if level else ""
    return f"/kubepods.slice{middle}/kubepods-{level}pod{uid}.slice/cri-containerd-{container_id}.scope"


@dataclass(frozen=True, slots=True, order=True)
class _Change:
    time_us: int
    rank: int
    order: int


class NodeFiles:
    """The trees of one node below a directory of its own; `close` removes it."""

    def __init__(self, cluster: SimCluster, node: SimNode, directory: Path | None = None) -> None:
        self.root = directory or Path(tempfile.mkdtemp(prefix="gpumeter-sim-", dir=memory_directory()))
        self.root.mkdir(parents=True, exist_ok=True)
        self.proc_path = self.root / "proc"
        self.cgroup_path = self.root / "cgroup"
        self._node = node
        self._pids: dict[str, list[int]] = {}
        self._actions: list[tuple[_Change, Callable[[], None]]] = []
        self._done = 0
        for process in node.host_processes:
            self._plan_process(process, HOST_CGROUP)
        for pod, container in containers_on(cluster, node.name):
            scope = scope_of(pod, container.container_id)
            self._plan(container.started_us, container.finished_us, scope, self._make_scope, self._remove_scope)
            for process in container.processes:
                self._plan_process(process, scope)
        self._actions.sort(key=lambda item: item[0])
        self._write_node()

    def __enter__(self) -> "NodeFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def advance(self, now_us: int) -> None:
        """Brings the trees to a time; time does not go back."""
        while self._done < len(self._actions) and self._actions[self._done][0].time_us <= now_us:
            self._actions[self._done][1]()
            self._done += 1

    def close(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _plan(
        self,
        start_us: int,
        end_us: int | None,
        scope: str,
        begin: Callable[[str], None],
        finish: Callable[[str], None],
    ) -> None:
        if end_us is not None and end_us <= start_us:
            return
        # A container's directory comes before and goes after its processes: containers are planned before them.
        number = len(self._actions)
        self._actions.append((_Change(start_us, _START, number), lambda: begin(scope)))
        if end_us is not None:
            self._actions.append((_Change(end_us, _END, -number), lambda: finish(scope)))

    def _plan_process(self, process: SimProcess, scope: str) -> None:
        def begin(scope: str) -> None:
            self._write_process(process.pid, start_ticks(process, self._node.boot_us), scope)
            self._write_members(scope, [*self._pids.get(scope, []), process.pid])

        def finish(scope: str) -> None:
            shutil.rmtree(self.proc_path / str(process.pid))
            self._write_members(scope, [pid for pid in self._pids[scope] if pid != process.pid])

        self._plan(process.start_us, process.end_us, scope, begin, finish)

    def _make_scope(self, scope: str) -> None:
        self._write_members(scope, [])

    def _remove_scope(self, scope: str) -> None:
        directory = self.cgroup_path / scope.lstrip("/")
        shutil.rmtree(directory)
        self._pids.pop(scope, None)
        if not any(directory.parent.iterdir()):
            directory.parent.rmdir()

    def _write_members(self, scope: str, pids: list[int]) -> None:
        directory = self.cgroup_path / scope.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        self._pids[scope] = pids

    def _write_process(self, pid: int, ticks: int, cgroup: str) -> None:
        directory = self.proc_path / str(pid)
        directory.mkdir(parents=True, exist_ok=True)
        # The name in parentheses may hold spaces and parentheses, which readers get wrong.
        (directory / "stat").write_text(f"{pid} (pt main) :0) S 1 {' '.join(_fields(pid, ticks))}\n")
        (directory / "cgroup").write_text(f"0::{cgroup}\n")
        (directory / "comm").write_text("pt main) :0\n")

    def _write_node(self) -> None:
        self._write_process(1, 1, "/init.scope")
        (self.proc_path / "1" / "ns").mkdir(exist_ok=True)
        (self.proc_path / "1" / "ns" / "pid").symlink_to(INIT_PID_NAMESPACE)
        (self.proc_path / "self").symlink_to("1")
        random = self.proc_path / "sys" / "kernel" / "random"
        random.mkdir(parents=True)
        (random / "boot_id").write_text(f"{self._node.boot_id}\n")
        (self.proc_path / "stat").write_text(f"cpu  0 0 0 0 0 0 0 0 0 0\nbtime {self._node.boot_us // 1_000_000}\n")
        self.cgroup_path.mkdir(exist_ok=True)
        (self.cgroup_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")


def _fields(pid: int, ticks: int) -> Iterator[str]:
    """Fields 5 to 52 of stat; 22 is the start time."""
    known = {5: pid, 6: pid, 20: 1, 22: ticks}
    return (str(known.get(number, 0)) for number in range(5, 53))


def memory_directory() -> Path | None:
    """A file system in memory where one may be used; else where temporary files go."""
    return _MEMORY_DIRECTORY if os.access(_MEMORY_DIRECTORY, os.W_OK | os.X_OK) else None
