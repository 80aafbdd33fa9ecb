"""gpu-live: figures of windows that are still open; provisional, never billed, may be lost. Arrow IPC, many nodes each.

A set is the rows of one (cluster, node, gpu_uuid, window): the one with the highest `known` counts, as a whole, until
the window's row is in gpu-usage. Times run from the window's start to `as_of_us`: held, charged and lifetime too. Once
every reading of a window is in, its set has the measures of the final rows (tests/property/test_live.py).
"""

from .columns import Column
from .usage import USAGE_COLUMNS

_NOT_OF_OPEN_WINDOWS = frozenset({"revision"})

LIVE_COLUMNS = (
    *(c for c in USAGE_COLUMNS if c.name not in _NOT_OF_OPEN_WINDOWS and not c.name.startswith("d_")),
    Column("as_of_us", "int64", "end of the newest reading of the node's window, at most the window's end"),
    Column("known", "int64", "how much of the log the meter had seen: of copies the highest counts"),
)
