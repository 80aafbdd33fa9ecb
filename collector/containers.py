"""The cgroup tree of the host: which processes each container has now, read cheaply every second.

So a process that lived two seconds is still known when the driver's ring names it later. A directory is listed again
only when its times or link count moved, all of them once a minute (cgroup file systems do not promise times). Knows
paths and pids; what a path means is cgroup.py. Law: what it reports as arrived and not left is what the files say
(tests/unit/collector/test_containers.py).
"""

import os
from pathlib import Path
from typing import NamedTuple

from .cgroup import CgroupIdentity, identity_of_path

FULL_EVERY = 60
DEEPEST = 12
V1_HIERARCHIES = ("pids", "devices", "memory", "systemd", "cpu")
_WHOLE_READ = 4000
"""A read below this many bytes reached the end of cgroup.procs; the kernel gives a page at a time."""

_Key = tuple[int, int, int]


class Changes(NamedTuple):
    """What moved since the last scan; a pid that left one container and arrived in another is in both."""

    arrived: list[tuple[int, CgroupIdentity]]
    left: list[int]
    new_containers: int


class Containers:
    """Processes of every container below the cgroup file system at `path` (v2, or one hierarchy of v1)."""

    def __init__(self, path: str) -> None:
        self._root = _hierarchy(path)
        self._watched: dict[str, _Key] = {}
        self._containers: dict[str, CgroupIdentity] = {}
        self._texts: dict[str, bytes] = {}
        self._scans = 0

    def scan(self) -> Changes:
        """Processes that came and went since the last scan."""
        before_scan = set(self._containers)
        self._find()
        fresh = len(self._containers.keys() - before_scan)
        arrived: list[tuple[int, CgroupIdentity]] = []
        left: list[int] = []
        queue = list(self._containers)
        for path in queue:
            identity = self._containers[path]
            before, text = self._texts.get(path, b""), _processes(path)
            if text is None:
                del self._containers[path]
                text = b""
            elif not text and path not in self._watched:
                queue += self._look_below(path)
            if text == before:
                continue
            self._texts[path] = text
            now, then = set(text.split()), set(before.split())
            arrived += [(int(pid), identity) for pid in sorted(now - then)]
            left += [int(pid) for pid in sorted(then - now)]
        for path in self._texts.keys() - self._containers.keys():
            left += [int(pid) for pid in self._texts.pop(path).split()]
        return Changes(arrived, left, fresh)

    def _find(self) -> None:
        """List again what may have changed since the last scan."""
        whole = self._scans % FULL_EVERY == 0
        self._scans += 1
        if whole:
            self._watched.clear()
            self._walk(self._root)
            return
        for path in [path for path, key in self._watched.items() if _key(path) != key]:
            self._watched.pop(path, None)
            self._walk(path)

    def _look_below(self, path: str) -> list[str]:
        """Groups below a container whose own group is empty: processes may be there (crun, systemd in a pod)."""
        known, key = len(self._containers), _key(path)
        self._walk(path)
        if key is not None:
            self._watched[path] = key
        return list(self._containers)[known:]

    def _walk(self, path: str, depth: int = 0) -> bool:
        """List a directory and what is below; whether a pod is in it.

        Watched from then on: what holds pods, what lies beside that (an emptied QoS class), and all that is named
        like the kubelet's own tree.
        """
        identity = identity_of_path(path.removeprefix(self._root))
        if identity.container_id:
            self._containers.setdefault(path, identity)
        key = _key(path)
        below = _directories(path)
        if key is None or below is None:
            self._watched.pop(path, None)
            return False
        holding = [self._walk(child, depth + 1) for child in below] if depth < DEEPEST else []
        holds_pod = bool(identity.pod_uid) or any(holding)
        if identity.container_id:
            return holds_pod
        if holds_pod or path == self._root or "kubepods" in path:
            self._watched[path] = key
        if any(holding) or path == self._root:
            beside = [child for child in below if child not in self._watched and child not in self._containers]
            self._watched |= {child: found for child in beside if (found := _key(child)) is not None}
        return holds_pod


def _directories(path: str) -> list[str] | None:
    """Directories in a directory; None: it is gone or may not be read."""
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return None


def _hierarchy(path: str) -> str:
    """The tree to read: the whole of v2, or the first hierarchy of v1 that is mounted."""
    if not Path(path, "cgroup.controllers").exists():
        for name in V1_HIERARCHIES:
            if Path(path, name).is_dir():
                return f"{path}/{name}"
    return path.rstrip("/")


def _key(path: str) -> _Key | None:
    try:
        found = os.stat(path)  # noqa: PTH116 every second for every pod: no Path objects
    except OSError:
        return None
    return found.st_mtime_ns, found.st_nlink, found.st_ino


def _processes(path: str) -> bytes | None:
    """Text of cgroup.procs; None: the cgroup is gone or shows no processes of its own (threaded)."""
    try:
        file = os.open(f"{path}/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = chunk = os.read(file, 65536)
        while len(chunk) >= _WHOLE_READ:
            chunk = os.read(file, 65536)
            text += chunk
    except OSError:
        return None
    finally:
        os.close(file)
    return text
