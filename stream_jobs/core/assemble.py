"""Puts together the closing function's input from the facts that a window may see, for first results and revisions.

Pure. Which facts those are, the caller decides by offsets (node.py, repair.py); what they mean together is here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.pods import NodeRecord, PodRecord
from stream_jobs.decode_checks import Columns

from .existence import alike
from .held import AnyReading, DeviceFacts, devices_of, listings_in, together
from .settings import MeterSettings
from .window import NodeWindow, SeenGap, SeenSnapshot, Stretch


@dataclass(frozen=True, slots=True)
class DeviceList:
    """The devices that a reading listed, when, and where it stands in the log."""

    read_us: int
    offset: int
    devices: list[DeviceFacts]


@dataclass(slots=True)
class Facts:
    """What a window may see of its node; `lists` are device lists read before its end, in event time."""

    readings: Sequence[AnyReading]
    lists: Sequence[DeviceList]
    snapshots: list[SeenSnapshot]
    pods: list[PodRecord]
    records: Iterable[tuple[int, NodeRecord]]
    boots: list[str]
    gaps: Sequence[SeenGap]


def assemble(
    cluster: str, node: str, start_us: int, revision: int, cuts: tuple[int, int, int], facts: Facts, s: MeterSettings
) -> NodeWindow:
    """A node's window; devices that were last listed beyond the reach are no longer taken for there.

    Of the node's records the one that the watcher saw last counts, whatever its place in the log.
    """
    end_us = s.calendar.end_of(start_us)
    listed = facts.lists[-1] if facts.lists else None
    is_there = listed is not None and start_us - listed.read_us <= s.reach_us
    devices = together(listed.devices if listed and is_there else [], [devices_of(r) for r in facts.readings])
    is_sliced = any(device.slices_total > 1 for device in devices)
    records = [(record.seen_us, offset, record) for offset, record in facts.records]
    return NodeWindow(
        cluster=cluster,
        node=node,
        start_us=start_us,
        end_us=end_us,
        revision=revision,
        cuts=cuts,
        devices=devices,
        readings=facts.readings,
        snapshots=facts.snapshots,
        pods=facts.pods,
        node_record=max(records, key=lambda r: r[:2])[2] if records else None,
        boots=facts.boots,
        spool_gap=any(g.start_us < end_us and g.end_us >= start_us for g in facts.gaps),
        listing=listed.offset if listed else -1,
        listed_us=listed.read_us if listed else 0,
        stretches=_stretches(start_us, end_us, facts, is_there) if is_sliced else [],
    )


def _stretches(start_us: int, end_us: int, facts: Facts, is_there: bool) -> list[Stretch]:
    """Which devices there were until when in [start, end), where instances of a GPU may come and go.

    A list counts from the one before it on. Behind the last that was read in that time the first of the readings counts
    that reach into it from later, else that last; without any the last before it.
    """
    lists = [listed for listed in facts.lists if listed.read_us >= start_us]
    later = [
        DeviceList(read_us, reading.offset, devices)
        for reading in facts.readings
        for read_us, devices in listings_in(reading)
        if read_us >= end_us
    ]
    lists += sorted(later, key=lambda d: (d.read_us, d.offset))[:1]
    found: list[Stretch] = []
    for listed in lists or (facts.lists[-1:] if is_there else ()):
        if found and found[-1].devices == listed.devices:
            found.pop()
        found.append(Stretch(listed.read_us, listed.devices))
    if found:
        found[-1] = Stretch(end_us, found[-1].devices)
    return alike([stretch.devices for stretch in found], [stretch.end_us for stretch in found])


def newest_pods(pods: Iterable[tuple[int, PodRecord]]) -> list[PodRecord]:
    """Of each pod the record that the watcher saw last, whatever its place in the log, by uid."""
    seen = sorted(((pod.seen_us, offset, pod) for offset, pod in pods), key=lambda s: s[:2])
    newest = {pod.uid: pod for _, _, pod in seen}
    return [newest[uid] for uid in sorted(newest)]


def touched(device: Columns) -> tuple[int, int]:
    """The time that a message's device rows touch: when they were read, and what they span, if anything."""
    spans, read = device["span_end_us"] > device["span_start_us"], device["read_us"]
    first = device["span_start_us"][spans].min(initial=read.min())
    return int(first), int(device["span_end_us"][spans].max(initial=read.max() + 1))
