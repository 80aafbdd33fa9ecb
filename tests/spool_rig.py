"""A spool over a broker that is a list; it acknowledges at the next poll, so that a crash may come before."""

from pathlib import Path
from typing import NamedTuple

from collector.publish import ACKNOWLEDGED, AGAIN, NEVER, Done
from collector.spool import Spool
from schemas.gaps import decode_gap
from schemas.headers import GAP, READING, SNAPSHOT, Headers
from schemas.names import GPU_SAMPLES, POD_MAPPINGS

TOPICS = (GPU_SAMPLES, POD_MAPPINGS)


class Arrival(NamedTuple):
    """A message in the broker's log."""

    topic: str
    headers: Headers
    payload: bytes


class Broker:
    """Where messages arrive, and the carrier to it; `too_large` bounds a payload, `refusals` are answered `again`."""

    def __init__(self, too_large: int = 1 << 30) -> None:
        self.log: list[Arrival] = []
        self.away = False
        self.refusals = 0
        self.offers = 0
        self.acknowledged = 0
        self.failed = 0
        self._too_large = too_large
        self._queue: list[tuple[Arrival, Done]] = []
        self._unacknowledged: list[Done] = []

    def offer(self, topic: str, headers: Headers, payload: bytes, done: Done) -> None:
        """Takes a message; it arrives where the broker is there."""
        self.offers += 1
        if len(payload) > self._too_large:
            done(NEVER)
        elif self.refusals:
            self.refusals -= 1
            done(AGAIN)
        else:
            self._queue.append((Arrival(topic, headers, payload), done))
            self.arrive()

    def arrive(self) -> None:
        """What is queued arrives, unacknowledged as yet."""
        if not self.away:
            self.log += [arrival for arrival, _ in self._queue]
            self._unacknowledged += [done for _, done in self._queue]
            self._queue = []

    def poll(self) -> None:
        """Acknowledges what has arrived."""
        self.arrive()
        done, self._unacknowledged = self._unacknowledged, []
        self.acknowledged += len(done)
        for one in done:
            one(ACKNOWLEDGED)

    def wait(self, timeout_s: float) -> int:
        """As poll."""
        self.poll()
        return len(self._queue)

    def forget(self) -> None:
        """The sending process was killed: what had not arrived never does."""
        self._queue, self._unacknowledged = [], []


class EventClock:
    """Event time that goes on by a second a message."""

    def __init__(self) -> None:
        self.now_us = 0

    def event_us(self) -> int:
        """One second later each time."""
        self.now_us += 1_000_000
        return self.now_us

    def monotonic_us(self) -> int:
        """The same."""
        return self.now_us

    def wait_until_us(self, monotonic_us: int) -> bool:
        """At once."""
        return True


class Sender:
    """A process with a spool; `restart` is a kill -9 and a new process, so a new epoch."""

    def __init__(self, path: Path | None, broker: Broker, limit_bytes: int = 1 << 24, memory: int = 1 << 20) -> None:
        self.broker, self.clock, self.epoch_us = broker, EventClock(), 0
        self.sent: dict[tuple[str, int], list[bytes]] = {}
        self._path, self._bounds = path, {"limit_bytes": limit_bytes, "memory_bytes": memory}
        self.begin()

    def begin(self) -> None:
        """A process begins."""
        self.epoch_us += 1
        self.spool = Spool(self.broker, self.clock, self._path, **self._bounds)

    def kill(self) -> None:
        """The process is gone, and what it had not written with it."""
        self.spool.close()
        self.broker.forget()

    def restart(self) -> None:
        """Killed and begun anew."""
        self.kill()
        self.begin()

    def send(self, size: int = 100, topic: str = GPU_SAMPLES) -> None:
        """Sends the stream's next message, of a content that tells it from all others."""
        known = self.sent.setdefault((topic, self.epoch_us), [])
        payload = (f"{topic}/{self.epoch_us}/{len(known) + 1}/".encode() * size)[:size]
        known.append(payload)
        record = READING if topic == GPU_SAMPLES else SNAPSHOT
        headers = Headers(
            record=record, cluster="c", node="n", boot_id="b", epoch_us=self.epoch_us, seq=len(known), complete_to_us=7
        )
        assert self.spool.produce(topic, "n", headers, payload)

    def drain(self) -> None:
        """The broker is there and everything goes out."""
        self.broker.away, self.broker.refusals = False, 0
        self.spool.flush(5)

    def step(self) -> None:
        """The clock was set: a new epoch in the same process."""
        self.epoch_us += 1

    def check(self, *, told_beyond: int = 0, exact: bool = False) -> int:
        """Each number arrived as it was sent or is told, in order, epoch after epoch; how many are told and not there.

        `told_beyond`: how many numbers may be told that were never sent, since files were damaged; two damages beside
        each other may then tell a gap late. `exact`: nothing is told that arrived.
        """
        lost = 0
        for topic in TOPICS:
            sent = {
                (e, n + 1): p for (t, e), payloads in self.sent.items() if t == topic for n, p in enumerate(payloads)
            }
            arrived: set[tuple[int, int]] = set()
            told: set[tuple[int, int]] = set()
            order: list[tuple[int, int]] = []
            for arrival in self.broker.log:
                epoch, seq = arrival.headers.epoch_us, arrival.headers.seq
                numbers = {(epoch, seq)}
                if arrival.topic != topic:
                    continue
                if arrival.headers.record == GAP:
                    gap = decode_gap(arrival.payload)
                    assert (gap.epoch_us, gap.last_seq) == (epoch, seq) and 0 < gap.start_us <= gap.end_us
                    numbers = {(epoch, number) for number in range(gap.first_seq, seq + 1)}
                if numbers - arrived - told and not (told_beyond and arrival.headers.record == GAP):
                    order.append((epoch, seq))
                if arrival.headers.record == GAP:
                    told |= numbers
                else:
                    arrived |= numbers
                    assert arrival.payload == sent[epoch, seq]
            assert order == sorted(order), "what was new did not come in order"
            assert sent.keys() <= arrived | told, "a number is neither there nor told"
            assert not exact or not told & arrived, "told what arrived"
            assert len(told - sent.keys()) <= told_beyond, "told what never was"
            lost += len(told & sent.keys() - arrived)
        return lost
