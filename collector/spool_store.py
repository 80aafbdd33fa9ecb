"""The directory of the spool: numbered files that are appended to at one end, read and removed at the other.

A file begins with the last message of every stream before it, so what a removed file held is known from the next one:
nothing has to be written to drop the oldest, which a full disk would refuse. `position` says how far delivery is
acknowledged, in two slots written in turn. Every OSError goes to the caller.
Laws: after a kill at any instant everything appended and not acknowledged is read again, in order; the bound holds
(tests/property/test_spool.py).
"""

import errno
import fcntl
import logging
import os
import struct
from binascii import crc32
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from .spool_records import Frame, Mark, Stream, encode_marks, encode_message, numbered, read_frame

logger = logging.getLogger(__name__)
SEGMENT_BYTES, SEGMENTS = 1 << 20, 16
_SLOT_BYTES = 32 << 10
_SLOT = struct.Struct(">II")


class Place(NamedTuple):
    """A place in the spool: file number and offset."""

    segment: int
    offset: int


class Progress(msgspec.Struct, array_like=True):
    """What `position` says: everything before (segment, offset) is acknowledged, each stream up to its mark."""

    count: int = 0
    segment: int = 0
    offset: int = 0
    told: list[Mark] = []


class Found(NamedTuple):
    """A frame, and the place behind it."""

    frame: Frame
    after: Place


class Store:
    """The spool's files under a path of its own; BlockingIOError where another process has it."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.told: list[Mark] = []
        """The last acknowledged message of each stream, as of the opening."""
        self.written: dict[Stream, Mark] = {}
        """The last message of each stream that was in the spool, as of the opening."""
        self._path, self._limit_bytes = path, limit_bytes
        self._unsynced: set[int] = set()
        self._sizes: dict[int, int] = {}
        self._progress = Progress()
        self._cursor = Place(0, 0)
        self._segment_bytes = min(SEGMENT_BYTES, limit_bytes // SEGMENTS)
        self._active: int | None = None
        self._reader: tuple[int, int] | None = None
        self._owned: list[int] = []
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._open()
        except OSError:
            self.close()
            raise

    @property
    def held_bytes(self) -> int:
        """Bytes of all files with messages."""
        return sum(self._sizes.values())

    @property
    def numbers(self) -> tuple[int, int]:
        """Numbers of the oldest and the newest file; of the last one there was, where there is none."""
        return min(self._sizes, default=self._progress.segment + 1), max(self._sizes, default=self._progress.segment)

    def append(self, mark: Mark, payload: bytes, before: Iterable[Mark]) -> None:
        """Puts a message at the end; `before` are the streams' last ones, for a file that begins here."""
        frame = encode_message(mark, payload)
        newest = max(self._sizes, default=0)
        if self._active is None or self._sizes[newest] + len(frame) > self._segment_bytes:
            known = {one.stream: one for one in before}
            # A stream that begins here is named too, so that it is known even if its first message is not readable.
            known.setdefault(mark.stream, numbered(mark, mark.seq - 1))
            newest = self._begin(max(newest, self._progress.segment) + 1, encode_marks(list(known.values())))
        while self.held_bytes + len(frame) > self._limit_bytes and self.drop_oldest():
            pass
        self._write(newest, frame)

    def begin_anew(self) -> None:
        """The next message begins a file, so that what was lost before it is known from that file."""
        if self._active is not None:
            os.close(self._active)
            self._active = None

    def drop_oldest(self) -> bool:
        """Removes the oldest file but the last, delivered or not; False where there is none."""
        if len(self._sizes) < 2:
            return False
        self._remove(min(self._sizes))
        return True

    def next(self) -> Found | None:
        """What is to be delivered next; None where everything was given out."""
        while self._cursor.segment in self._sizes:
            number, offset = self._cursor
            size = self._sizes[number]
            if offset < size:
                frame = read_frame(self._read_from(number), offset, size)
                self._cursor = Place(number, frame.end)
                return Found(frame, self._cursor)
            later = [other for other in self._sizes if other > number]
            if not later:
                return None
            self._cursor = Place(min(later), 0)
        return None

    def skip_file(self) -> None:
        """Goes on with the next file, where this one cannot be read."""
        later = [number for number in self._sizes if number > self._cursor.segment]
        number = self._cursor.segment
        self._cursor = Place(min(later), 0) if later else Place(number, self._sizes.get(number, 0))

    @property
    def is_read(self) -> bool:
        """Whether everything was given out."""
        number, offset = self._cursor
        return not any(other > number for other in self._sizes) and offset >= self._sizes.get(number, 0)

    def acknowledge(self, before: Place, told: Iterable[Mark]) -> None:
        """Everything before a place is delivered: remembers it, and removes the files that it makes needless."""
        self._progress = Progress(self._progress.count + 1, before.segment, before.offset, list(told))
        data = msgspec.msgpack.encode(self._progress)
        while len(data) > _SLOT_BYTES - _SLOT.size:
            del self._progress.told[: len(self._progress.told) // 2]
            data = msgspec.msgpack.encode(self._progress)
        try:
            slot = _SLOT.pack(len(data), crc32(data)) + data
            os.pwrite(self._position, slot, self._progress.count % 2 * _SLOT_BYTES)
        finally:
            for number in [number for number in self._sizes if number < before.segment]:
                self._remove(number)

    def close(self) -> None:
        """Gives the directory back."""
        self.begin_anew()
        self._close_reader()
        for fd in self._owned:
            os.close(fd)
        self._owned = []

    def files_to_sync(self) -> list[Path]:
        """Files that were written since this was last asked, and their directory; empty where none was."""
        numbers, self._unsynced = sorted(self._unsynced), set()
        return [*(self._file(number) for number in numbers), self._path] if numbers else []

    def _open(self) -> None:
        lock = os.open(self._path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._owned.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process uses this spool", str(self._path)) from error
        self._position = os.open(self._path / "position", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._owned.append(self._position)
        # Allocated once: a full disk takes what is written in place.
        missing = os.fstat(self._position).st_size < 2 * _SLOT_BYTES
        if missing and os.pwrite(self._position, bytes(2 * _SLOT_BYTES), 0) < 2 * _SLOT_BYTES:
            raise OSError(errno.ENOSPC, "no room for the position", str(self._path))
        self._progress = self._saved()
        found = {int(file.stem): file.stat().st_size for file in self._path.glob("*.spool") if file.stem.isdigit()}
        self._sizes = dict(sorted(found.items()))
        for number in [number for number in self._sizes if number < self._progress.segment]:
            self._remove(number)
        place = Place(self._progress.segment, self._progress.offset)
        self._cursor = place if place.segment in self._sizes else Place(min(self._sizes, default=0), 0)
        self.told = self._progress.told
        self.written = {mark.stream: mark for mark in self.told} | self._scan()

    def _saved(self) -> Progress:
        saved = [Progress()]
        for slot in (0, 1):
            head = os.pread(self._position, _SLOT.size, slot * _SLOT_BYTES)
            size, checksum = _SLOT.unpack(head.ljust(_SLOT.size, b"\0"))
            data = os.pread(self._position, size, slot * _SLOT_BYTES + _SLOT.size) if size < _SLOT_BYTES else b""
            if size and len(data) == size and crc32(data) == checksum:
                try:
                    saved.append(msgspec.msgpack.decode(data, type=Progress))
                except msgspec.MsgspecError as error:
                    logger.warning("%s: written by another version, all is sent again: %s", self._path, error)
        return max(saved, key=lambda progress: progress.count)

    def _scan(self) -> dict[Stream, Mark]:
        """The last message of each stream in the files, from the newest file on whose beginning can be read.

        Where the very end cannot be read, a message more is taken to be lost: which, no one can say.
        """
        marks: dict[Stream, Mark] = {}
        torn = False
        for number in reversed(self._sizes):
            frames = list(self._frames(number))
            if number == max(self._sizes) and frames:
                torn = frames[-1].mark is None and frames[-1].marks is None
            here = [m for frame in frames for m in (frame.marks or ([frame.mark] if frame.mark else []))]
            marks = {mark.stream: mark for mark in here} | marks
            if frames and frames[0].marks is not None:
                break
        if torn and marks:
            newest = max(marks.values(), key=lambda mark: mark.at_us)
            for topic in {mark.topic for mark in marks.values()}:
                stream = (topic, *newest.stream[1:])
                mark = marks.get(stream) or msgspec.structs.replace(numbered(newest, 0), topic=topic)
                marks[stream] = numbered(mark, mark.seq + 1)
        return marks

    def _frames(self, number: int) -> Iterable[Frame]:
        fd, at = self._read_from(number), 0
        while at < self._sizes[number]:
            frame = read_frame(fd, at, self._sizes[number])
            yield frame._replace(payload=None)
            at = frame.end

    def _begin(self, number: int, head: bytes) -> int:
        self.begin_anew()
        self._active = os.open(
            self._file(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._sizes[number] = 0
        if self._cursor.segment not in self._sizes:
            self._cursor = Place(number, 0)
        try:
            self._write(number, head)
        except OSError:
            self._remove(number)
            raise
        return number

    def _write(self, number: int, frame: bytes) -> None:
        """Appends a frame whole, or raises OSError and ends the file there; a rest of it is known by its checksum."""
        assert self._active is not None
        try:
            written = os.write(self._active, frame)
            if written < len(frame):
                os.ftruncate(self._active, self._sizes[number])
                raise OSError(errno.ENOSPC, f"only {written} of {len(frame)} bytes were taken")
        except OSError:
            self._sizes[number] = os.fstat(self._active).st_size
            self.begin_anew()
            raise
        self._sizes[number] += len(frame)
        self._unsynced.add(number)

    def _remove(self, number: int) -> None:
        self._file(number).unlink(missing_ok=True)
        self._close_reader(number)
        del self._sizes[number]
        self._unsynced.discard(number)
        if self._cursor.segment == number:
            self._cursor = Place(min(self._sizes, default=number), 0)

    def _read_from(self, number: int) -> int:
        if self._reader is None or self._reader[0] != number:
            self._close_reader()
            self._reader = (number, os.open(self._file(number), os.O_RDONLY | os.O_CLOEXEC))
        return self._reader[1]

    def _close_reader(self, number: int | None = None) -> None:
        if self._reader is not None and number in (None, self._reader[0]):
            os.close(self._reader[1])
            self._reader = None

    def _file(self, number: int) -> Path:
        return self._path / f"{number:012d}.spool"
