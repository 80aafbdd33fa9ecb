"""The collector's spool: whatever is killed, torn, flipped or full, each number arrives in order or is told as lost."""

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector import spool, spool_backlog, spool_store
from tests.spool_rig import TOPICS, Broker, Sender

SEEDS = st.integers(0, 1_000_000)


def _story(sender, rng, steps, between=lambda: None, size=lambda rng: rng.randrange(1, 4000), kills=True):
    """Messages, outages and kills in any order; `between` happens while the process is not there."""
    for _ in range(steps):
        what = rng.random()
        if what < 0.7:
            sender.send(size(rng), rng.choice(TOPICS))
        elif what < 0.8:
            sender.broker.away = not sender.broker.away
        elif what < 0.93:
            sender.spool.poll()
        elif not kills:
            sender.step()
        else:
            sender.kill()
            between()
            sender.begin()


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("*.spool") if file.stat().st_size)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_kills_at_any_point_lose_nothing(seed):
    """With room enough everything arrives, in order, epoch after epoch; nothing is told as lost."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        sender = Sender(Path(folder, "spool"), Broker())
        _story(sender, rng, 200)
        sender.drain()
        assert sender.check() == 0 and sender.spool.gaps == 0
        sender.kill()


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_oldest_are_dropped_and_told(seed):
    """With too little room the bound holds at every step, and each number is there or told, also over kills."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        sender = Sender(Path(folder, "spool"), Broker(), limit_bytes=80_000)
        sender.broker.away = True
        lost = 0
        for _ in range(8):
            _story(sender, rng, 40, size=lambda rng: rng.randrange(100, 6000))
            assert sum(file.stat().st_size for file in _files(Path(folder, "spool"))) <= 80_000
        sender.drain()
        lost = sender.check()
        assert sender.spool.gaps == 0 or lost or sender.spool.dropped
        newest = max(sender.sent, key=lambda stream: stream[1])
        arrived = {a.headers.seq for a in sender.broker.log if (a.topic, a.headers.epoch_us) == newest}
        assert len(sender.sent[newest]) in arrived
        sender.kill()


@settings(max_examples=80, deadline=None)
@given(SEEDS, st.booleans())
def test_damage_costs_what_was_damaged_and_is_told(seed, cut):
    """A torn last record at kills, or a bit flipped once in messages or in the position: the rest arrives whole."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "spool")
        harms = 0

        def harm():
            nonlocal harms
            files = _files(path)
            if not files or (harms and not cut) or rng.random() < 0.3:
                return
            harms += 1
            if cut:
                size = files[-1].stat().st_size
                os.truncate(files[-1], max(0, size - rng.randrange(1, 150)))
                return
            file = rng.choice([*files, files[-1], path / "position"])
            content = bytearray(file.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            file.write_bytes(content)

        sender = Sender(path, Broker())
        for topic in TOPICS:
            sender.send(200, topic)
        sender.spool.poll()
        _story(sender, rng, 120, between=harm, size=lambda rng: rng.randrange(150, 3000))
        sender.drain()
        assert sender.check(told_beyond=harms) <= 2 * harms
        sender.kill()


class FullDisk:
    """The operating system, with a directory that holds only so many bytes."""

    def __init__(self, path: Path, capacity: int) -> None:
        self.path, self.capacity = path, capacity

    def __getattr__(self, name):
        return getattr(os, name)

    def write(self, fd, data):
        """Writes what still fits; ENOSPC where nothing does."""
        free = self.capacity - sum(file.stat().st_size for file in self.path.glob("*.spool"))
        if free <= 0:
            raise OSError(28, "No space left on device")
        return os.write(fd, data[:free])


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_a_full_disk_stops_nothing(seed):
    """On a disk that is full now and then messages go on, memory keeps its bound, and each number is there or told."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        disk = FullDisk(Path(folder, "spool"), 1 << 30)
        patch.setattr(spool_store, "os", disk)
        patch.setattr(spool_backlog, "DISK_RETRY_S", 0)
        patch.setattr(spool, "FLIGHT_MESSAGES", 4)
        sender = Sender(Path(folder, "spool"), Broker(), limit_bytes=400_000, memory=20_000)
        for _ in range(8):
            disk.capacity = rng.choice([0, 5_000, 30_000, 60_000, 1 << 30])
            sender.broker.away = rng.random() < 0.7
            _story(sender, rng, 40, kills=False)
            on_disk = sum(file.stat().st_size for file in _files(Path(folder, "spool")))
            assert on_disk <= 400_000 and sender.spool.held_bytes - on_disk <= 20_000
        sender.drain()
        lost = sender.check(exact=True)
        assert not lost or sender.spool.faults
        sender.kill()
