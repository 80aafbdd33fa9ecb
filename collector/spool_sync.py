"""When the spool's files are brought to the disk: only while something waits long, and beside the caller.

Nothing that is acknowledged within SYNC_S ever costs a sync. Tested in tests/unit/collector/test_spool.py.
"""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from .clock import Deadline

SYNC_S = 5.0


class Syncer:
    """Syncs at most every SYNC_S, in a thread that lives as long as one sync."""

    def __init__(self) -> None:
        self.syncs = 0
        self._due: Deadline | None = None
        self._thread: threading.Thread | None = None
        self._fault: OSError | None = None

    def look(self, is_behind: bool, files: Callable[[], list[Path]]) -> None:
        """Begins a sync of the files where one is due; OSError of the last one."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if not is_behind:
            self._due = None
        elif self._due is None:
            self._due = Deadline(SYNC_S)
        elif not self._due.left_s and not (self._thread is not None and self._thread.is_alive()):
            self._due = Deadline(SYNC_S)
            if paths := files():
                self.syncs += 1
                self._thread = threading.Thread(target=self._sync, args=(paths,), name="spool-sync", daemon=True)
                self._thread.start()

    def sync(self, paths: Iterable[Path]) -> None:
        """Brings files and directories to the disk and waits for it; one that is gone was delivered or dropped."""
        for path in paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _sync(self, paths: list[Path]) -> None:
        try:
            self.sync(paths)
        except OSError as error:
            self._fault = error
