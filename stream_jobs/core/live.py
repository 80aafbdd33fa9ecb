"""Provisional figures of windows that are still open, by the closing function itself. Changes no row.

What was fresh counts as shown, and what is remembered of a node (directories, layouts) may be made anew.

A window is closed as if it ended where its newest reading does, over what lies below its cuts, or below the present
positions where a cut is not known yet. Laws: with all readings in, the measures are those of the final rows; at any
moment they add up to the time so far (tests/property/test_live.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from schemas.ids import VIOLATION
from schemas.live import LIVE_COLUMNS
from schemas.names import GPU_SAMPLES, POD_EVENTS, POD_MAPPINGS
from stream_jobs.decode import arrow_schema

from .calendar import Calendar
from .close import close_windows
from .cluster import ClusterState
from .fresh import Touched
from .held import span_end_of
from .identity import Directory
from .node import NodeState
from .settings import Source
from .window import NodeWindow

LIVE_SCHEMA = arrow_schema(LIVE_COLUMNS)
_NEWEST = 3
"""Open windows of a node that are shown anew at once: a long late burst shows in its newest."""


def fresh_windows(clusters: Iterable[ClusterState], most: int, now_s: float, every_s: float) -> list[NodeWindow]:
    """Open windows with new readings, of up to `most` nodes that waited longest; no node oftener than `every_s`."""
    windows: list[NodeWindow] = []
    for cluster in clusters:
        for name, time in cluster.fresh.take(most, now_s, every_s):
            windows += _open_windows(cluster, name, time)
            most -= 1
    return windows


def provisional_rows(
    windows: list[NodeWindow],
    source: Source,
    calendar: Calendar,
    directory_of: Callable[[NodeWindow], Directory] | None = None,
) -> pa.Table:
    """Rows (LIVE_COLUMNS) of windows as far as their readings go; none of a window that no reading spans yet."""
    table = close_windows([w for w in map(_so_far, windows) if w.end_us > w.start_us], source, directory_of)
    table = table.filter(pc.not_equal(table["holder_kind"], VIOLATION))
    samples, mappings, events = (table[f"cut_{topic}_offset"] for topic in ("samples", "mappings", "events"))
    columns = {name: table[name] for name in table.column_names} | {
        "as_of_us": table["window_end_us"],
        "window_end_us": pa.array(map(calendar.end_of, table["window_start_us"].to_pylist()), pa.int64()),
        "known": pc.add(pc.add(samples, mappings), events),
    }
    return pa.table([columns[name] for name in LIVE_SCHEMA.names], schema=LIVE_SCHEMA)


def open_window(cluster: ClusterState, node: NodeState, start_us: int) -> NodeWindow:
    """An open window as it is known now: below its cuts, and below the positions where a cut is not reached yet."""
    at_us = cluster.settings.calendar.due_us(start_us)
    found = {
        GPU_SAMPLES: node.cuts.get(start_us),
        POD_MAPPINGS: cluster.clocks[POD_MAPPINGS].first_at(at_us),
        POD_EVENTS: cluster.clocks[POD_EVENTS].first_at(at_us),
    }
    read = cluster.position
    samples, mappings, events = (read[t] if cut is None else min(cut, read[t]) for t, cut in found.items())
    return node.window(start_us, (samples, mappings, events), cluster.read_from(start_us), cluster.settings)


def _open_windows(cluster: ClusterState, name: str, time: Touched) -> list[NodeWindow]:
    node, calendar = cluster.node(name), cluster.settings.calendar
    if not node.started:
        return []
    first_us = max(calendar.start_of(time[0]), node.closed_to_us)
    starts = list(calendar.starts(first_us, time[1]))[-_NEWEST:]
    return [open_window(cluster, node, start_us) for start_us in starts]


def _so_far(window: NodeWindow) -> NodeWindow:
    """The window, ending where its newest reading does; empty where none spans any of it."""
    newest_us = max(map(span_end_of, window.readings), default=window.start_us)
    return replace(window, end_us=min(window.end_us, max(newest_us, window.start_us)))
