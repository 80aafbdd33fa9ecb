"""The spool's manners: when it syncs, what it does without a disk, what it does with a broker that refuses."""

import logging
import os
import time
from pathlib import Path

import pytest

from collector import cli, spool, spool_backlog, spool_sync
from collector.errors import Kept, Retry
from collector.publish import Publisher
from schemas.gaps import decode_gap
from schemas.headers import GAP, Headers
from schemas.names import GPU_SAMPLES, POD_MAPPINGS
from tests.spool_rig import Broker, EventClock, Sender


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, by the name of file or directory."""
    names: list[str] = []

    def fsync(fd: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    monkeypatch.setattr(spool_sync.os, "fsync", fsync)
    return names


def test_spool_syncs_nothing_while_nothing_is_behind(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that are acknowledged at the next poll cost no sync, and their files are removed."""
    monkeypatch.setattr(spool_sync, "SYNC_S", 0)
    sender = Sender(tmp_path, Broker(), limit_bytes=160_000)
    for _ in range(300):
        sender.send(2000)
        sender.spool.poll()
    assert synced == [] and sender.spool.syncs == 0
    assert len(list(tmp_path.glob("*.spool"))) == 1 and sender.spool.held_bytes < 20_000
    assert sender.check() == 0


def test_spool_syncs_what_waits(tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Once something has waited, files and directory are synced beside the caller, and not again without a message."""
    monkeypatch.setattr(spool_sync, "SYNC_S", 0.05)
    sender = Sender(tmp_path, Broker())
    sender.broker.away = True
    sender.send()
    sender.spool.poll()
    assert synced == []
    _poll_until(sender, lambda: len(synced) == 2)
    assert synced == ["000000000001.spool", tmp_path.name]
    for _ in range(10):
        time.sleep(0.02)
        sender.spool.poll()
    assert len(synced) == 2 and sender.spool.syncs == 1
    sender.send()
    _poll_until(sender, lambda: len(synced) == 4)


def _poll_until(sender: Sender, done: object) -> None:
    for _ in range(200):
        sender.spool.poll()
        if done():  # type: ignore[operator]
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen in 4 s")


def test_spool_without_a_disk_holds_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A path that cannot be made stops nothing: it is counted and told, memory has its bound, the oldest are a gap."""
    (tmp_path / "file").write_text("")
    broker = Broker()
    broker.away = True
    sender = Sender(tmp_path / "file" / "spool", broker, memory=10_000)
    assert (sender.spool.faults, sender.spool.on_disk) == (1, False)
    assert "messages wait in memory" in caplog.text
    for _ in range(2000):
        sender.send(1000)
    assert sender.spool.held_bytes <= 10_000
    sender.drain()
    assert sender.check() > 700 and sender.spool.dropped == sender.check()
    last = [arrival.headers.seq for arrival in broker.log if arrival.headers.record != GAP][-1]
    assert last == 2000


def test_spool_knows_how_many_messages_wait(tmp_path: Path) -> None:
    """What is not acknowledged is counted to the message, on disk and in memory, in old epochs too."""
    for path in (tmp_path, None):
        sender = Sender(path, Broker())
        sender.broker.away = True
        for n in range(200):
            sender.send(10, GPU_SAMPLES if n % 3 else POD_MAPPINGS)
        assert sender.spool.waiting == 200
        if path:
            sender.restart()
            sender.send()
        else:
            sender.step()
            sender.send()
        assert sender.spool.waiting == 201
        sender.drain()
        assert sender.spool.waiting == 0


def test_spool_takes_the_disk_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the path can be made again messages go to disk, what waited in memory first."""
    monkeypatch.setattr(spool_backlog, "DISK_RETRY_S", 0)
    (tmp_path / "spool").write_text("in the way")
    broker = Broker()
    broker.away = True
    sender = Sender(tmp_path / "spool", broker)
    for _ in range(300):
        sender.send()
    (tmp_path / "spool").unlink()
    sender.send()
    assert sender.spool.on_disk
    sender.restart()
    sender.send()
    broker.log = [arrival for arrival in broker.log if arrival.headers.epoch_us == 2]
    sender.drain()
    kept = [arrival.headers.seq for arrival in broker.log if arrival.headers.epoch_us == 1]
    assert kept[-1] == 301 and len(kept) >= 301 - spool.FLIGHT_MESSAGES


def test_spool_belongs_to_one_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second process on the same directory holds in memory and says why; the first one's messages stay its own."""
    one = Sender(tmp_path, Broker())
    other = Sender(tmp_path, Broker())
    assert one.spool.on_disk and not other.spool.on_disk
    assert "another process uses this spool" in caplog.text
    other.send()
    other.drain()
    assert other.check() == 0


def test_spool_tells_a_message_that_is_too_large(tmp_path: Path) -> None:
    """A message that no broker takes is told as a gap in its place, and the others pass."""
    sender = Sender(tmp_path, Broker(too_large=5_000))
    for size in (100, 6_000, 100):
        sender.send(size)
    sender.drain()
    assert [(a.headers.record, a.headers.seq) for a in sender.broker.log] == [("reading", 1), (GAP, 2), ("reading", 3)]
    gap = decode_gap(sender.broker.log[1].payload)
    assert (gap.first_seq, gap.last_seq, gap.reason) == (2, 2, "too_large")


def test_spool_sends_again_what_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that the broker refuses for now is offered again, after a while, with the same numbers."""
    monkeypatch.setattr(spool, "RESEND_S", 0.05)
    sender = Sender(tmp_path, Broker())
    sender.broker.refusals = 3
    for _ in range(3):
        sender.send()
    assert sender.broker.offers == 3 and sender.broker.log == []
    sender.spool.flush(5)
    assert [arrival.headers.seq for arrival in sender.broker.log] == [1, 2, 3]
    assert sender.check() == 0 and sender.broker.offers == 6


def test_spool_says_whether_what_is_left_is_safe(tmp_path: Path, synced: list[str]) -> None:
    """At the end unsent messages are Kept where they are synced on disk, and a Retry where memory alone has them."""
    kept = Sender(tmp_path, Broker())
    kept.broker.away = True
    kept.send()
    with pytest.raises(Kept, match="go first next time"):
        kept.spool.flush(0.1)
    assert "000000000001.spool" in synced
    memory = Sender(None, Broker())
    memory.broker.away = True
    memory.send()
    with pytest.raises(Retry, match="not safe on disk") as refused:
        memory.spool.flush(0.1)
    assert not isinstance(refused.value, Kept)


def test_spool_gap_says_when(tmp_path: Path) -> None:
    """A gap spans from the last message before it to the last of the lost, and from the stream's first without one."""
    broker = Broker()
    broker.away = True
    sender = Sender(None, broker, memory=1_000)
    for _ in range(spool.FLIGHT_MESSAGES):
        sender.send(10)
    for topic in (GPU_SAMPLES, GPU_SAMPLES, POD_MAPPINGS, POD_MAPPINGS, GPU_SAMPLES):
        sender.send(400, topic)
    sender.drain()
    gaps = {a.topic: decode_gap(a.payload) for a in broker.log if a.headers.record == GAP}
    at = spool.FLIGHT_MESSAGES * 1_000_000
    samples, mappings = gaps[GPU_SAMPLES], gaps[POD_MAPPINGS]
    assert (samples.first_seq, samples.last_seq) == (spool.FLIGHT_MESSAGES + 1, spool.FLIGHT_MESSAGES + 2)
    assert (samples.start_us, samples.end_us) == (at, at + 2_000_000)
    assert (mappings.first_seq, mappings.last_seq, mappings.start_us, mappings.end_us) == (1, 1, *[at + 3_000_000] * 2)


def test_spool_never_waits_for_an_absent_broker(tmp_path: Path) -> None:
    """A hundred messages to a real producer without a broker take no time to speak of."""
    outlet = spool.Spool(
        Publisher("c", "127.0.0.1:1"), EventClock(), tmp_path, limit_bytes=1 << 24, memory_bytes=1 << 20
    )
    begin = time.monotonic()
    for seq in range(1, 101):
        headers = Headers(record="reading", cluster="c", node="n", boot_id="b", epoch_us=1, seq=seq)
        assert outlet.produce(GPU_SAMPLES, "n", headers, b"x" * 15_000)
        outlet.poll()
    assert time.monotonic() - begin < 1
    assert outlet.is_behind and outlet.on_disk


def test_agent_that_kept_its_messages_ends_well(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process ends with 0 where what is unsent lies safe on disk, and says so."""
    for name, value in {"CLUSTER": "c", "NODE": "n", "BOOTSTRAP_SERVERS": "none:1"}.items():
        monkeypatch.setenv(f"GPUMETER_{name}", value)

    def kept(_: object) -> int:
        raise Kept("3 messages lie on disk")

    monkeypatch.setattr(cli, "_run", kept)
    with caplog.at_level(logging.WARNING):
        assert cli.main([]) == 0
    assert "3 messages lie on disk" in caplog.text


@pytest.mark.parametrize("size_bytes", [0, 3, 9, 40_000])
def test_spool_whose_position_was_cut_short_opens(tmp_path: Path, size_bytes: int) -> None:
    """What a full disk left of the position file ends nothing: it is made whole, or read as far as it goes."""
    (tmp_path / "position").write_bytes(bytes(size_bytes))
    outlet = spool.Spool(
        Publisher("c", "127.0.0.1:1"), EventClock(), tmp_path, limit_bytes=1 << 24, memory_bytes=1 << 20
    )
    assert outlet.on_disk
    outlet.close()


def test_spool_without_room_for_its_position_holds_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes a few bytes of the position file and no more is a disk that cannot be used, not a defect."""
    written = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: written(fd, data[:3], at))
    outlet = spool.Spool(
        Publisher("c", "127.0.0.1:1"), EventClock(), tmp_path, limit_bytes=1 << 24, memory_bytes=1 << 20
    )
    assert not outlet.on_disk
    outlet.close()
