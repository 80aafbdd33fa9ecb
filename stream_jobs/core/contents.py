"""What a record of an input topic says, or why it is refused; the same in the first reading and in a repair pass.

Clock records are the meter's own business. Pure; tested in tests/property/test_garbage.py.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from schemas import headers as h
from schemas.gaps import decode_gap
from schemas.headers import Headers
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from schemas.pods import NodeRecord, PodRecord, decode_node, decode_pod
from schemas.samples import CLOCK_AHEAD, LONGEST_MESSAGE_US
from schemas.snapshots import decode_snapshot
from stream_jobs.decode import DecodeError, Reading, decode_readings
from stream_jobs.decode_checks import Columns
from stream_jobs.errors import DeadLetter

from .assemble import touched
from .held import Arrived
from .settings import MeterSettings
from .window import SeenGap, SeenSnapshot

Decoded = tuple[Columns, Columns] | Arrived | DecodeError


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record as the log has it."""

    offset: int
    append_us: int
    headers: list[tuple[str, bytes]]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Content:
    """A record that was read: exactly one of the fields after `headers` is set.

    A reading is `arrived` when it is first read, `reading` in a repair pass.
    """

    offset: int
    headers: Headers
    arrived: Arrived | None = None
    reading: Reading | None = None
    snapshot: SeenSnapshot | None = None
    pod: PodRecord | None = None
    record: NodeRecord | None = None
    gap: SeenGap | None = None


def headers_of(record: LogRecord) -> Headers:
    """Headers of a record; DeadLetter where its version is newer than this reader."""
    headers = h.decode_headers(record.headers)
    newest = h.newest_version(headers.record)
    if headers.version > newest:
        raise DeadLetter("version", f"version {headers.version} of {headers.record}, this reader knows {newest}")
    return headers


def content_of(
    topic: str, record: LogRecord, headers: Headers, decoded: Decoded | None, settings: MeterSettings
) -> Content:
    """What a record says; `decoded` is what a reading's payload holds. DeadLetter or ValueError where it is refused."""
    if isinstance(decoded, DecodeError):
        raise decoded
    if isinstance(decoded, Arrived):
        _refuse_far_future(headers.record, decoded.newest_us, record.append_us, settings)
        _refuse_long(headers.record, decoded.start_us, decoded.end_us)
        is_ahead = not settings.simulated_time and decoded.newest_us - record.append_us > settings.ahead_us
        return Content(record.offset, headers, decoded._replace(flags=CLOCK_AHEAD) if is_ahead else decoded)
    if decoded is not None:
        device = decoded[0]
        read_us = max(int(device[name].max(initial=0)) for name in ("read_us", "span_end_us"))
        _refuse_far_future(headers.record, read_us, record.append_us, settings)
        if len(device["read_us"]):
            _refuse_long(headers.record, *touched(device))
        if not settings.simulated_time and read_us - record.append_us > settings.ahead_us:
            decoded = (device | {"flags": device["flags"] | CLOCK_AHEAD}, decoded[1])
        reading = Reading(headers.boot_id, headers.epoch_us, headers.seq, record.offset, *decoded)
        return Content(record.offset, headers, reading=reading)
    if topic == POD_MAPPINGS and headers.record == h.SNAPSHOT:
        sender = (headers.boot_id, headers.epoch_us)
        seen = SeenSnapshot(record.offset, sender, decode_snapshot(record.payload))
        return Content(record.offset, headers, snapshot=seen)
    if topic in (GPU_SAMPLES, POD_MAPPINGS) and headers.record == h.GAP:
        gap = decode_gap(record.payload)
        _refuse_far_future(headers.record, gap.end_us, record.append_us, settings)
        start_us = max(gap.start_us, gap.end_us - settings.reach_us)
        return Content(record.offset, headers, gap=SeenGap(record.offset, start_us, gap.end_us))
    if topic == POD_EVENTS and headers.record == h.POD_EVENT:
        return Content(record.offset, headers, pod=decode_pod(record.payload))
    if topic == POD_EVENTS and headers.record == h.NODE_EVENT:
        return Content(record.offset, headers, record=decode_node(record.payload))
    raise DeadLetter("record", f"record {headers.record!r} does not belong on {topic}")


def decoded_readings(
    records: Sequence[LogRecord], decode: Callable[[Sequence[bytes]], Sequence[Decoded]] = decode_readings
) -> dict[int, Decoded]:
    """What the readings among records hold, by offset; decoded together, since the cost is per batch."""
    wanted = ("record", h.READING.encode())
    readings = [record for record in records if wanted in record.headers]
    return dict(zip((r.offset for r in readings), decode([r.payload for r in readings]), strict=True))


def contents_of(
    topic: str, records: Iterable[LogRecord], cluster: str, nodes: set[str], settings: MeterSettings
) -> list[Content]:
    """What the records of some nodes say; clocks, and what was refused when it was first read, are left out."""
    mine: list[tuple[LogRecord, Headers]] = []
    for record in records:
        try:
            headers = headers_of(record)
        except (DeadLetter, ValueError):  # refused when it was first read
            continue
        if headers.record != h.CLOCK and headers.cluster == cluster and headers.node in nodes:
            mine.append((record, headers))
    readings = decoded_readings([record for record, _ in mine]) if topic == GPU_SAMPLES else {}
    found = []
    for record, headers in mine:
        try:
            found.append(content_of(topic, record, headers, readings.get(record.offset), settings))
        except (DeadLetter, ValueError, RecursionError):  # refused when it was first read
            continue
    return found


def _refuse_long(record: str, start_us: int, end_us: int) -> None:
    """Refuses what a collector cannot have gathered in one message: it would touch each window in between."""
    if end_us - start_us > LONGEST_MESSAGE_US:
        raise ValueError(
            f"{record} touches {(end_us - start_us) // 1_000_000} s, from {start_us} to {end_us} us, at most "
            f"{LONGEST_MESSAGE_US // 1_000_000} s: was the node's clock set in between?"
        )


def _refuse_far_future(record: str, read_us: int, append_us: int, settings: MeterSettings) -> None:
    """Refuses what no window would see for days: it would be held, and progress would wait for it all the while."""
    ahead_us = 0 if settings.simulated_time else read_us - append_us
    if ahead_us > settings.reading_ahead_us:
        raise ValueError(
            f"{record} at {read_us} us came {ahead_us // 1_000_000} s before its time by the broker's clock "
            f"({append_us} us), at most {settings.reading_ahead_us // 1_000_000} s: is the node's clock wrong?"
        )
