"""When a worker writes the clock in the watcher's place, and when it does not."""

import asyncio

import pytest

from schemas.clock import ClockRecord, decode_clock, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.names import GPU_SAMPLES, INPUT_TOPICS
from stream_jobs import log
from stream_jobs.core.meter import LogRecord
from stream_jobs.core.settings import MeterSettings
from stream_jobs.errors import Retry
from stream_jobs.lane import Lane, Received, open_lane
from stream_jobs.publish import Outgoing
from stream_jobs.stand_in import StandIn
from tests.integration import fleet

KEY = b"key"
AWAY_S = 100.0
NOW_US = fleet.START_US


class Site:
    """A partition's log, a lane that reads it, and the stand-in that may write to it."""

    def __init__(self) -> None:
        self.logs: dict[str, list[LogRecord]] = {topic: [] for topic in INPUT_TOPICS}
        self.lane: Lane = open_lane(0, 1, MeterSettings(clock_key=KEY), "id", dict.fromkeys(INPUT_TOPICS, 0))
        self.sent: list[ClockRecord] = []
        self.now_s = 0.0
        self.fails = False
        self.stand_in = StandIn(self, self._send, KEY, AWAY_S, log.logger("test"))
        self.readings = (m for m in fleet.messages(1, 600, 1) if dict(m.headers)["record"] == b"reading")

    async def true_ends(self, partitions: list[int]) -> dict[int, dict[str, int]]:
        """Ends of the log."""
        if self.fails:
            raise Retry("broker away")
        return {p: {topic: len(records) for topic, records in self.logs.items()} for p in partitions}

    def _send(self, message: Outgoing) -> None:
        assert message.partition == 0
        record = decode_clock(message.payload or b"", KEY, message.topic, 0)
        self._append(message.topic, message.headers, message.payload or b"")
        if message.topic == GPU_SAMPLES:
            self.sent.append(record)

    def _append(self, topic: str, headers: list[tuple[str, bytes]], payload: bytes) -> None:
        append_us = NOW_US + round(self.now_s * 1e6)
        self.logs[topic].append(LogRecord(len(self.logs[topic]), append_us, headers, payload))

    def clock(self) -> None:
        """The watcher tells the time, which is the true one."""
        headers = encode_headers(Headers(record=CLOCK, cluster=fleet.CLUSTER))
        record = ClockRecord(cluster=fleet.CLUSTER, now_us=NOW_US + round(self.now_s * 1e6))
        for topic in INPUT_TOPICS:
            self._append(topic, headers, encode_clock(record, KEY, topic, 0))

    def reading(self) -> None:
        """A node tells something."""
        message = next(self.readings)
        self._append(GPU_SAMPLES, message.headers, message.payload)

    def read(self) -> None:
        """The lane reads all that the log has."""
        for topic, records in self.logs.items():
            self.lane.feed([Received(topic, 0, 1, record) for record in records[self.lane.expected[topic] :]])

    def run(self, seconds: float, *, clocks: bool = False, readings: bool = True, reads: bool = True) -> None:
        """Lets time go by, a second a step, with a clock and a reading every 5 s."""

        async def steps() -> None:
            for _ in range(round(seconds)):
                self.now_s += 1.0
                if self.now_s % 5 == 0:
                    _ = clocks and self.clock()
                    _ = readings and self.reading()
                if reads:
                    self.read()
                self.stand_in.look({0: self.lane}, self.now_s)
                await asyncio.sleep(0)

        asyncio.run(steps())


@pytest.fixture
def site() -> Site:
    """A site whose watcher was there for a minute."""
    site = Site()
    site.run(60, clocks=True)
    return site


def test_watcher_that_is_there_is_not_stood_in_for(site: Site) -> None:
    """While clocks come, and for the patience after the last one, the worker writes none."""
    site.run(1000, clocks=True)
    site.run(AWAY_S - 2)
    assert (site.sent, site.stand_in.away(0)) == ([], 0)


def test_absent_watcher_is_stood_in_for_with_the_true_time(site: Site) -> None:
    """After the patience a clock comes every period and a little, within a second of the true time all along."""
    site.run(AWAY_S + 300)
    assert site.stand_in.away(0) == 1
    assert 40 <= len(site.sent) <= 60
    assert all(record.override and record.cluster == fleet.CLUSTER for record in site.sent)
    assert abs(site.sent[-1].now_us - (NOW_US + round(site.now_s * 1e6))) < 10_000_000
    assert [r.now_us for r in site.sent] == sorted({r.now_us for r in site.sent})
    behind_s = [(NOW_US + site.now_s * 1e6 - site.sent[-1].now_us) / 1e6]
    assert max(behind_s) < 7


def test_watcher_that_comes_back_goes_on(site: Site) -> None:
    """Its first clock ends the standing in, and the patience counts anew from there."""
    site.run(AWAY_S + 60)
    before = len(site.sent)
    site.run(600, clocks=True)
    assert (len(site.sent) - before <= 1, site.stand_in.away(0)) == (True, 0)
    at = len(site.sent)
    site.run(AWAY_S - 2)
    assert len(site.sent) == at


def test_cluster_whose_nodes_tell_nothing_needs_no_clock(site: Site) -> None:
    """Where no reading came since the last clock, e.g. in a cluster that was taken down, none is written."""
    site.run(3 * AWAY_S, readings=False)
    assert site.sent == []
    site.run(10)
    assert len(site.sent) == 1


def test_worker_that_has_not_read_the_log_knows_nothing(site: Site) -> None:
    """Clocks that lie in the log unread are no absence: nothing is written while the log's end is not reached."""
    site.run(AWAY_S + 20)
    site.run(60, clocks=True)
    before = len(site.sent)
    site.run(5)
    site.run(3 * AWAY_S, clocks=True, reads=False)
    site.read()
    site.run(AWAY_S - 2)
    assert len(site.sent) == before


def test_log_whose_end_is_not_known_is_not_written_to(site: Site) -> None:
    """While a broker does not say where the log ends nobody knows whether the watcher is away."""
    site.fails = True
    site.run(3 * AWAY_S)
    assert site.sent == []
    site.fails = False
    site.run(5)
    assert len(site.sent) == 1


def test_one_override_at_a_time(site: Site) -> None:
    """The next one is written only when the last was read on all three topics."""
    site.run(AWAY_S - 1)
    site.run(200, readings=False, reads=False)
    assert len(site.sent) == 1


def test_cluster_without_any_clock_is_left_alone() -> None:
    """Before the first clock of a cluster there is no time to go on from."""
    site = Site()
    site.run(3 * AWAY_S)
    assert site.sent == []


def test_worker_that_takes_over_goes_on_from_the_last_override(site: Site) -> None:
    """Where the newest clock of the log is an override, the next worker goes on after a period, not after minutes."""
    site.run(AWAY_S + 20)
    site.lane = open_lane(0, 2, MeterSettings(clock_key=KEY), "id", dict.fromkeys(INPUT_TOPICS, 0))
    site.stand_in = StandIn(site, site._send, KEY, AWAY_S, log.logger("test"))
    before = len(site.sent)
    site.run(12)
    assert len(site.sent) > before
    assert site.sent[-1].now_us > site.sent[before - 1].now_us
    site.run(30, clocks=True)
    site.lane = open_lane(0, 3, MeterSettings(clock_key=KEY), "id", dict.fromkeys(INPUT_TOPICS, 0))
    site.stand_in = StandIn(site, site._send, KEY, AWAY_S, log.logger("test"))
    before = len(site.sent)
    site.run(AWAY_S - 2)
    assert len(site.sent) == before
