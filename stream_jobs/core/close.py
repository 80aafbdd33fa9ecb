"""The closing function f: node windows in, usage rows out; pure, so that a replay of the log gives the same rows."""

from collections.abc import Callable

import pyarrow as pa

from .attribute import measure
from .batch import make_batch
from .identity import Directory
from .rows import USAGE_SCHEMA, usage_table
from .settings import Source
from .window import NodeWindow


def close_windows(
    windows: list[NodeWindow], source: Source, directory_of: Callable[[NodeWindow], Directory] | None = None
) -> pa.Table:
    """Usage rows (schemas.usage.ALL_COLUMNS) of node windows; a caller may pass a remembered directory of pods."""
    if not windows:
        return USAGE_SCHEMA.empty_table()
    batch = make_batch(windows, directory_of or (lambda window: Directory(window.pods)))
    return usage_table(batch, measure(batch), source.topic_id, source.partition)
