"""What no window, revision or restart can need any more is dropped: facts, clocks, gaps, lives, whole nodes.

When it is dropped changes no row, so it need not be a function of the log. Laws: after crashes that lose hours of work
every copy of a row is the same (tests/property/test_lost_work.py); nothing of a node is kept that ended long ago
(tests/property/test_lives.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.names import POD_EVENTS

from .calendar import LONGEST_US
from .identity import FOREVER_US
from .settings import MINUTE_US

if TYPE_CHECKING:
    from .cluster import ClusterState
    from .node import NodeState


@dataclass(slots=True)
class Forgotten:
    """How far a cluster's past is dropped."""

    floors: tuple[int, int] = (0, 0)
    """Offsets in pod-mappings and pod-events."""
    clock_us: int = 0
    tried_us: int = 0
    """The newest clock at which it was tried."""
    oldest_us: int = 0
    """Start of the oldest window that may still be made anew."""


def forget(cluster: ClusterState, closed: Iterable[NodeState]) -> None:
    """Drops facts and clock entries that no window can need: of nodes that closed some, each minute of all."""
    past, s, read_us = cluster.forgotten, cluster.settings, min(c.now_us or 0 for c in cluster.clocks.values())
    is_due = read_us // MINUTE_US > past.tried_us // MINUTE_US
    clock_us = min(_pending_us(cluster), read_us) if is_due else 0
    past.tried_us = max(past.tried_us, read_us)
    if clock_us // MINUTE_US <= past.clock_us // MINUTE_US:
        for node in closed:
            node.forget(*past.floors)
        return
    past.clock_us, past.floors = clock_us, cluster.floors()
    oldest_us = _oldest_us(cluster, clock_us)
    for node in cluster.nodes.values():
        node.forget(*past.floors)
        node.history.forget(clock_us, past.floors[1], cluster.clocks[POD_EVENTS], s)
        while len(node.lives) > 1 and (node.lives[0].over_us or 0) < oldest_us:
            del node.lives[0]
    for clock in cluster.clocks.values():
        clock.forget_before(oldest_us - s.reach_back_us)
    cluster.ranges = {start: offsets for start, offsets in cluster.ranges.items() if start >= oldest_us}
    cluster.gaps.forget_before(min([oldest_us, *(n.silent_since_us for n in cluster.nodes.values() if n.started)]))
    past.oldest_us = oldest_us


def drop_nodes(cluster: ClusterState, samples_offset: int) -> None:
    """Drops nodes of which nothing is left; `samples_offset` is the lowest that a restart may begin at.

    What is read again has yet to show which nodes it tells of.
    """
    if any(at < cluster.known[topic] for topic, at in cluster.position.items()):
        return
    position, events, reach_us = cluster.position[POD_EVENTS], cluster.clocks[POD_EVENTS], cluster.settings.reach_us
    for name, node in list(cluster.nodes.items()):
        is_empty = _is_empty(node, cluster.forgotten.oldest_us, samples_offset)
        if is_empty and node.history.is_empty(position, events, reach_us):
            del cluster.nodes[name]
            cluster.due.drop(name)
            cluster.fresh.drop(name)
            cluster.late_nodes.discard(name)
            cluster.waiting_nodes.discard(name)
            cluster.closed_to.pop((cluster.name, name), None)
            cluster.gone.discard((cluster.name, name))


def _pending_us(cluster: ClusterState) -> int:
    """The earliest minute whose revisions are not made yet: what they need must not be forgotten before."""
    late = (cluster.nodes[name].history.pending(FOREVER_US - 1) for name in cluster.late_nodes | cluster.waiting_nodes)
    return min((fact.minute_us for facts in late for fact in facts), default=FOREVER_US)


def _oldest_us(cluster: ClusterState, clock_us: int) -> int:
    keep_us, s = min([clock_us, *cluster.open_from_us()]), cluster.settings
    return min(clock_us - s.reach_us, keep_us - s.first_window_horizon_us) - LONGEST_US


def _is_empty(node: NodeState, oldest_us: int, samples_offset: int) -> bool:
    """Whether nothing of it matters to windows from a time on, nor to a re-read that begins at an offset."""
    open_parts = (node.senders, node.cuts, node.buffered, node.early, node.sample_gaps)
    told = (node.mapping_gaps, node.snapshots, node.pods, node.records)
    if any(open_parts) or any(told) or node.cut_to_us >= oldest_us:
        return False
    return not node.lives or (node.lives[-1].over_offset or 0) < samples_offset
