"""Clock records that a worker wrote in the watcher's place: they close windows of nodes that go on, and idle nobody."""

import pytest

from schemas.clock import ClockRecord, encode_clock
from schemas.headers import CLOCK, Headers, encode_headers
from schemas.names import INPUT_TOPICS
from stream_jobs.core.meter import LogRecord, PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.integration import fleet

MINUTE_US = 60_000_000
AWAY_US = fleet.START_US + 5 * MINUTE_US
"""From here on the watcher's clocks are missing."""
SILENT = "node-1"


def _log(override_every_us: int, override: bool, minutes: int = 20) -> list[fleet.Sent]:
    """Two nodes, of which one falls silent when the watcher goes away; clocks in its place every so often."""
    headers = encode_headers(Headers(record=CLOCK, cluster=fleet.CLUSTER))
    sent = []
    for message in fleet.messages(2, minutes, 1):
        fields = dict(message.headers)
        if fields["record"] == b"clock":
            now_us = int(message.payload.split(b'"now_us":')[1].split(b",")[0])
            if now_us > AWAY_US:
                if (now_us - AWAY_US) % override_every_us or now_us > fleet.START_US + minutes * MINUTE_US:
                    continue
                record = ClockRecord(cluster=fleet.CLUSTER, now_us=now_us, override=override)
                message = message._replace(headers=headers, payload=encode_clock(record, b"", message.topic, 0))
        elif fields["node"] == SILENT.encode() and int(fields.get("complete_to_us", b"0")) > AWAY_US:
            continue
        sent.append(message)
    return sent


def _closed(sent: list[fleet.Sent]) -> dict[str, int]:
    """End of the last window closed of each node, in minutes after the watcher went away."""
    meter = PartitionMeter(MeterSettings(simulated_time=True), Source(0))
    for topic in INPUT_TOPICS:
        own = [message for message in sent if message.topic == topic]
        meter.feed(topic, [LogRecord(i, 0, message.headers, message.payload) for i, message in enumerate(own)])
    closed: dict[str, int] = {}
    while (table := meter.close_ready()) is not None:
        for node, start_us in zip(table["node"].to_pylist(), table["window_start_us"].to_pylist(), strict=True):
            closed[node] = max(closed.get(node, 0), start_us + MINUTE_US)
    return {node: (end_us - AWAY_US) // MINUTE_US for node, end_us in closed.items()}


@pytest.mark.parametrize("every_us", [5_000_000, 60_000_000])
def test_override_closes_who_goes_on_and_waits_for_who_is_silent(every_us: int) -> None:
    """With overrides the node that goes on is closed to the end; the silent one is never taken for idle by them."""
    closed = _closed(_log(every_us, override=True))
    assert closed["node-0"] >= 12
    assert closed[SILENT] <= 0


def test_clock_of_the_watcher_idles_who_is_silent() -> None:
    """The same records from the watcher itself end the wait for the silent node."""
    closed = _closed(_log(5_000_000, override=False))
    assert closed[SILENT] >= 12
