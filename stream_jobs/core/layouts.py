"""Layouts of many windows, each made anew only where the last one of its node does not fit any more.

In most windows nothing begins or ends on a node; then what was made for the window before is what would be made again,
and looking at each process and grant would cost more than all arithmetic. Law: remembered or made anew, the rows are
the same (tests/property/test_layouts.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.snapshots import ProcessIdentity

from .divide import Ints, expand
from .gather import Gathered
from .grants import GrantLists
from .held import DeviceFacts
from .identity import Directory
from .layout import Laid, grants_layout
from .window import NodeWindow, SeenSnapshot


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a layout was made from, and the one list of processes of each GPU with their holders."""

    lists: GrantLists
    devices: list[DeviceFacts]
    from_us: int
    to_us: int
    """Windows within have the same grants all the time."""
    processes: list[ProcessIdentity] | None
    """Of the snapshots that readings named; None where no reading had a process."""
    first: Ints
    count: Ints
    pid: Ints
    start_ticks: Ints
    holder: Ints
    laid: Laid


@dataclass(slots=True)
class _Node:
    """A window on its way: its grants, and the snapshots that its strips name."""

    window: NodeWindow
    directory: Directory
    lists: GrantLists
    named: list[tuple[SeenSnapshot | None, int]]
    """In the order of the strips, with how many of them name it."""


def lay_out(
    windows: list[NodeWindow], gathered: Gathered, first_gpu: Ints, directory_of: Callable[[NodeWindow], Directory]
) -> tuple[list[Laid], Ints]:
    """Each window's layout, and the holder of each strip row as numbered in its window's."""
    strip, row = gathered.strips.strip, gathered.strips.row
    window = gathered.window[strip["message"]]
    edges = np.searchsorted(window, np.arange(len(windows) + 1))
    nodes = _nodes(windows, gathered, edges, directory_of)
    candidates = [fits(node) for node in nodes]
    holder = np.zeros(row["pid"].size, np.int64)
    known = _recalled(candidates, gathered, window, first_gpu, holder)
    laid: list[Laid] = []
    for w, node in enumerate(nodes):
        remembered = candidates[w]
        if remembered is not None and known[w]:
            laid.append(remembered.laid)
            continue
        strips = slice(edges[w], edges[w + 1])
        rows, _ = gathered.strips.rows_of(strips)
        mine = {"gpu": strip["gpu"][strips] - first_gpu[w], "rows": strip["rows"][strips]}
        mine |= {name: row[name][rows] for name in ("pid", "start_ticks")}
        made, holder[rows] = _made(node, mine)
        laid.append(made)
    return laid, holder


def _nodes(
    windows: list[NodeWindow], gathered: Gathered, edges: Ints, directory_of: Callable[[NodeWindow], Directory]
) -> list[_Node]:
    """The windows with the snapshots that their strips name, looked for once per run of strips that name the same."""
    message, seq = gathered.strips.strip["message"], gathered.strips.strip["mapping_seq"]
    new = np.ones(message.size + 1, bool)
    new[1:-1] = (message[1:] != message[:-1]) | (seq[1:] != seq[:-1])
    runs = np.flatnonzero(new)
    lengths = np.diff(runs)
    run_edges = np.searchsorted(runs, edges).tolist()
    messages, seqs, sizes = (c.tolist() for c in (message[runs[:-1]], seq[runs[:-1]], lengths))
    nodes = []
    for w, window in enumerate(windows):
        found: dict[Any, SeenSnapshot | None] = {}
        named: list[tuple[SeenSnapshot | None, int]] = []
        for run in range(run_edges[w], run_edges[w + 1]):
            key = (gathered.senders[messages[run]], seqs[run])
            if key not in found:
                found[key] = window.snapshot(*key)
            named.append((found[key], sizes[run]))
        nodes.append(
            _Node(
                window,
                directory_of(window),
                GrantLists.of((s.snapshot for s in window.snapshots), window.replicas),
                named,
            )
        )
    return nodes


def fits(node: _Node) -> Remembered | None:
    """What is remembered of a node, if it was made from the same grants, devices and processes."""
    known, window = node.directory.remembered, node.window
    if not isinstance(known, Remembered) or not known.from_us <= window.start_us < window.end_us <= known.to_us:
        return None
    if known.devices != window.devices:
        return None
    if not known.lists.equals(node.lists):
        return None
    alike = all(s is not None and s.snapshot.processes is known.processes for s, _ in node.named)
    return known if alike else None


def _recalled(
    candidates: Sequence[Remembered | None], gathered: Gathered, window: Ints, first_gpu: Ints, holder: Ints
) -> Any:
    """Fills in holders where a window's strips have the remembered lists of processes; says in which windows."""
    strip, row = gathered.strips.strip, gathered.strips.row
    recalled = [(w, known) for w, known in enumerate(candidates) if known is not None]
    good = np.array([known is not None for known in candidates], bool)
    if not recalled:
        return good
    gpus = int(first_gpu[-1]) + max(int(strip["gpu"].max(initial=0)) - int(first_gpu[-1]) + 1, 0)
    gpus = max(gpus, max(int(first_gpu[w]) + known.count.size for w, known in recalled))
    first, count = np.zeros(gpus, np.int64), np.full(gpus, -1, np.int64)
    lists = {name: np.concatenate([getattr(known, name) for _, known in recalled]) for name in ("pid", "start_ticks")}
    of_row = np.concatenate([known.holder for _, known in recalled])
    before = 0
    for w, known in recalled:
        at = slice(int(first_gpu[w]), int(first_gpu[w]) + known.count.size)
        first[at], count[at] = known.first + before, known.count
        before += known.pid.size
    alike = count[strip["gpu"]] == strip["rows"]
    good[window[~alike]] = False
    seen = np.zeros(gpus, bool)
    seen[strip["gpu"]] = True
    absent = (count > 0) & ~seen
    if absent.any():
        good[np.searchsorted(first_gpu, np.flatnonzero(absent), side="right") - 1] = False
    tried = np.flatnonzero(good[window])
    mine, item = gathered.strips.rows_of(tried)
    item = tried[item]
    at = first[strip["gpu"]][item] + mine - strip["row_first"][item]
    other = (lists["pid"][at] != row["pid"][mine]) | (lists["start_ticks"][at] != row["start_ticks"][mine])
    good[window[item[other]]] = False
    holder[mine] = of_row[at]
    return good


def _made(node: _Node, mine: dict[str, Ints]) -> tuple[Laid, Ints]:
    """A layout made anew, and the holders of the window's rows; remembered where the next window may use it."""
    layout, (from_us, to_us) = grants_layout(node.window, node.directory, node.lists)
    lists = _Lists(mine)
    of_strip = [snapshot for snapshot, strips in node.named for _ in range(strips)]
    joined: dict[tuple[Any, ...], Ints] = {}
    holders = []
    for key, snapshot in zip(lists.keys, of_strip, strict=True):
        found = joined.get((*key, id(snapshot)))
        if found is None:
            numbers = layout.join(key[0], snapshot, lists.processes(key), node.directory)
            found = joined[(*key, id(snapshot))] = np.array(numbers, np.int64)
        holders.append(found)
    for snapshot, _ in node.named:
        if snapshot is not None:
            snapshot.drop_index()
    laid = layout.laid(node.window)
    holder = np.concatenate([np.zeros(0, np.int64), *holders])
    node.directory.remembered = _remembered(node, laid, lists, holder, (from_us, to_us)) if to_us > from_us else None
    return laid, holder


class _Lists:
    """Processes of strips: `keys` tell a strip's GPU and its list of processes, the same list by the same key."""

    def __init__(self, mine: dict[str, Ints]) -> None:
        self.gpu, self.count, self.pid, self.start = mine["gpu"], mine["rows"], mine["pid"], mine["start_ticks"]
        ends = np.cumsum(self.count).tolist()
        parts = list(zip(self.gpu.tolist(), [0, *ends], ends, strict=False))
        self.keys = [(gpu, self.pid[a:b].tobytes(), self.start[a:b].tobytes()) for gpu, a, b in parts]
        self.first = {key: a for key, (_, a, _) in zip(self.keys, parts, strict=True)}

    def processes(self, key: tuple[int, bytes, bytes]) -> Iterable[tuple[int, int]]:
        """(pid, start) of a list."""
        part = slice(self.first[key], self.first[key] + len(key[1]) // self.pid.itemsize)
        return zip(self.pid[part].tolist(), self.start[part].tolist(), strict=True)


def _remembered(node: _Node, laid: Laid, lists: _Lists, holder: Ints, valid: tuple[int, int]) -> Remembered | None:
    """A layout to be remembered if all strips of each GPU have one list of processes, known by one of snapshots."""
    snapshots = [snapshot for snapshot, _ in node.named]
    processes = {id(s.snapshot.processes): s.snapshot.processes for s in snapshots if s is not None}
    if None in snapshots or len(processes) > 1 or len(lists.first) > len({gpu for gpu, _, _ in lists.first}):
        return None
    count = np.zeros(laid.gpus.shape[1], np.int64)
    count[lists.gpu] = lists.count
    first = np.zeros_like(count)
    for (gpu, _, _), at in lists.first.items():
        first[gpu] = at
    rows, _ = expand(first, count)
    return Remembered(
        lists=node.lists,
        devices=node.window.devices,
        from_us=valid[0],
        to_us=valid[1],
        processes=next(iter(processes.values()), None),
        first=np.cumsum(count) - count,
        count=count,
        pid=lists.pid[rows],
        start_ticks=lists.start[rows],
        holder=holder[rows],
        laid=laid,
    )
