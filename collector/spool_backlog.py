"""What waits to be handed over: first what lies on disk, then what is in memory because the disk could not be written.

Owns the bound of memory and what a failing disk means: it is tried again after a while, and what has to go meanwhile
is the oldest. Knows no producer. Tested in tests/property/test_spool.py and tests/unit/collector/test_spool.py.
"""

import errno
import logging
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from .clock import Deadline
from .spool_records import Mark, Stream
from .spool_store import Place, Store
from .spool_sync import Syncer

logger = logging.getLogger(__name__)
DISK_RETRY_S = 30.0


class Next(NamedTuple):
    """What comes next: marks that were reached, and a message where there is one; `place` is behind it on disk."""

    reached: Iterable[Mark] = ()
    mark: Mark | None = None
    payload: bytes = b""
    place: Place | None = None


class Backlog:
    """Messages in order, on disk and in memory; `opened` is told what a spool that was opened had delivered."""

    def __init__(
        self, path: Path | None, limit_bytes: int, memory_bytes: int, opened: Callable[[list[Mark]], None]
    ) -> None:
        self.faults = 0
        self.written: dict[Stream, Mark] = {}
        """The last message of each stream that left memory: to disk, to be handed over, or dropped."""
        self._path, self._limit_bytes, self._memory_limit, self._opened = path, limit_bytes, memory_bytes, opened
        self._store: Store | None = None
        self._memory: deque[tuple[Mark, bytes]] = deque()
        self._memory_bytes = 0
        self._disk_retry: Deadline | None = None
        self._disk_full = False
        self._syncer = Syncer()

    @property
    def held_bytes(self) -> int:
        """Bytes on disk and in memory, delivered ones of the newest file among them."""
        return (self._store.held_bytes if self._store else 0) + self._memory_bytes

    @property
    def on_disk(self) -> bool:
        """Whether messages go to disk."""
        return self._store is not None and self._disk_retry is None

    @property
    def in_memory(self) -> int:
        """Messages that are in memory alone."""
        return len(self._memory)

    @property
    def is_empty(self) -> bool:
        """Whether everything was handed over."""
        return not self._memory and (self._store is None or self._store.is_read)

    @property
    def syncs(self) -> int:
        """Times that files were synced."""
        return self._syncer.syncs

    @property
    def numbers(self) -> tuple[int, int]:
        """Numbers of the oldest and newest file on disk; (1, 0) without one."""
        return self._store.numbers if self._store is not None else (1, 0)

    def marks(self) -> list[tuple[Stream, Mark]]:
        """A copy of `written`."""
        return list(self.written.items())

    def open(self) -> None:
        """Opens the disk, where there is one."""
        self._disk_ready()

    def put(self, mark: Mark, payload: bytes) -> None:
        """Takes the newest message."""
        self._memory.append((mark, payload))
        self._memory_bytes += len(payload)
        self.to_disk()

    def next(self) -> Next | None:
        """What comes next; None where nothing waits. Reached marks of streams come before what follows them."""
        if self._store is not None and not self._store.is_read:
            try:
                found = self._store.next()
            except OSError as error:
                self._fault(error)
                self._store.skip_file()
                return Next()
            if found is not None:
                frame, after = found
                if frame.mark is None or frame.payload is None:
                    return Next(frame.marks or ([frame.mark] if frame.mark else ()))
                return Next((), frame.mark, frame.payload, after)
        reached = list(self.written.values())
        if not self._memory:
            return Next(reached) if reached else None
        return Next(reached, *self._from_memory())

    def to_disk(self) -> None:
        """Moves what is in memory to the disk where that can be written, and keeps memory in its bound."""
        while self._memory and self._disk_ready() and self._append():
            pass
        while self._memory_bytes > self._memory_limit:
            if not self._dropped_on_disk():
                self._from_memory()
                if self._store is not None:
                    self._store.begin_anew()

    def acknowledge(self, place: Place, told: Iterable[Mark]) -> None:
        """Everything on disk before a place is delivered."""
        if self._store is not None:
            try:
                self._store.acknowledge(place, told)
            except OSError as error:
                self._fault(error)

    def sync_while(self, is_behind: bool) -> None:
        """Lets the files be synced while something waits."""
        if self._store is not None:
            try:
                self._syncer.look(is_behind, self._store.files_to_sync)
            except OSError as error:
                self._fault(error)

    def sync_now(self) -> bool:
        """Syncs and waits for it; False where what is on disk is not safe there."""
        if self._store is None:
            return False
        try:
            self._syncer.sync(self._store.files_to_sync())
        except OSError as error:
            self._fault(error)
            return False
        return True

    def close(self) -> None:
        """Gives the directory back; writes nothing."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _disk_ready(self) -> bool:
        """Whether the disk is to be tried now; opens it where it is not open."""
        if self._path is None or (self._disk_retry is not None and self._disk_retry.left_s):
            return False
        if self._store is not None:
            return True
        try:
            self._store = Store(self._path, self._limit_bytes)
        except OSError as error:
            self._fault(error)
            return False
        self.written = self._store.written | self.written
        self._opened(self._store.told)
        self._disk_retry = None
        return True

    def _fault(self, error: OSError) -> None:
        self.faults += 1
        self._disk_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if self._disk_retry is None:
            logger.warning("spool %s cannot be used, messages wait in memory: %s", self._path, error)
        self._disk_retry = Deadline(DISK_RETRY_S)

    def _append(self) -> bool:
        """Moves the oldest message in memory to the disk; False where it did not take it."""
        assert self._store is not None
        try:
            self._store.append(*self._memory[0], self.written.values())
        except OSError as error:
            self._fault(error)
            return False
        if self._disk_retry is not None:
            logger.info("spool %s can be written again", self._path)
            self._disk_retry = None
        self._from_memory()
        return True

    def _dropped_on_disk(self) -> bool:
        """On a full disk the oldest messages are those on it: drops a file of them for the oldest in memory."""
        if self._store is None or not self._disk_full:
            return False
        try:
            return self._store.drop_oldest() and self._append()
        except OSError as error:
            self._fault(error)
            return False

    def _from_memory(self) -> tuple[Mark, bytes]:
        mark, payload = self._memory.popleft()
        self._memory_bytes -= len(payload)
        self.written[mark.stream] = mark
        return mark, payload
