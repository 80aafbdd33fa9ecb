"""The host's /proc: start time and cgroup of a process, boot id, pid namespace. Reads and parses, decides nothing.

Law: what is gone is None and what may not be read raises, so neither becomes an empty answer
(tests/unit/collector/test_procfs.py).
"""

import os
from pathlib import Path

INIT_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel's fixed inode of the init namespace (include/linux/proc_ns.h)."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_FROM_STATE_TO_START = 19


class ProcFs:
    """Reader of the proc file system mounted at `path`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def start_ticks(self, pid: int) -> int | None:
        """Start time in clock ticks since boot (field 22 of stat, counted after the last parenthesis); None: gone."""
        raw = self._read(f"{self._path}/{pid}/stat")
        if not raw:
            return None
        return int(raw[raw.rindex(b")") + 2 :].split()[_FROM_STATE_TO_START])

    def cgroup(self, pid: int) -> str | None:
        """Text of its cgroup file; None: gone."""
        raw = self._read(f"{self._path}/{pid}/cgroup")
        return raw.decode("utf-8", "replace") if raw else None

    def boot_id(self) -> str:
        """The kernel's random id of this boot."""
        return Path(self._path, "sys/kernel/random/boot_id").read_text("ascii").strip()

    def pid_namespace(self) -> str:
        """The pid namespace in which the agent runs; empty where this /proc does not show it."""
        try:
            return str(Path(self._path, "self/ns/pid").readlink())
        except OSError:
            return ""

    @staticmethod
    def _read(path: str) -> bytes | None:
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return None
        try:
            return os.read(file, 65536)
        except ProcessLookupError:
            return None
        finally:
            os.close(file)
