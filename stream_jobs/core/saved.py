"""A cluster to and from the carry: what gpu-samples alone has made of it so far, and what is known as of now."""

from schemas.names import GPU_SAMPLES, POD_EVENTS

from .carry import ClusterCarry, ClusterNow, gaps_of
from .cluster import ClusterState
from .cuts import ClockIndex
from .history import history_of


def carry_of(cluster: ClusterState) -> ClusterCarry:
    """A copy of what gpu-samples alone has made so far."""
    return ClusterCarry(
        cluster=cluster.name,
        heard_us=cluster.heard_us,
        clock_us=cluster.clocks[GPU_SAMPLES].now_us,
        gap_ends_us=list(cluster.gaps.ends_us),
        gap_totals_us=list(cluster.gaps.totals_us),
        nodes=[n.carry() for n in cluster.nodes.values() if n.lives],
    )


def now_of(cluster: ClusterState) -> ClusterNow:
    """A copy of what is known as of now, whatever topic told it."""
    events_floor = min(cluster.floors()[1], cluster.position[POD_EVENTS])
    clocks = {t: (clock.now_us, list(clock.times_us), list(clock.offsets)) for t, clock in cluster.clocks.items()}
    return ClusterNow(
        cluster=cluster.name,
        heard_us=cluster.heard_us,
        clocks=clocks,
        ranges=[(start, *offsets) for start, offsets in cluster.ranges.items()],
        nodes=[node.history.carry(node.node, events_floor) for node in cluster.nodes.values()],
    )


def restore(cluster: ClusterState, carry: ClusterCarry) -> None:
    """Takes up a carry, after `restore_now`."""
    cluster.clocks[GPU_SAMPLES].now_us = carry.clock_us
    cluster.gaps = gaps_of(carry)
    for node in carry.nodes:
        known = cluster.node(node.node)
        known.restore(node, cluster.closed_to.get((cluster.name, node.node), node.cut_to_us))
        cluster.due.note(known)


def restore_now(cluster: ClusterState, now: ClusterNow) -> None:
    """Takes up what was known when the carry was saved; the clock of gpu-samples goes back to where it begins."""
    for topic, (now_us, times_us, offsets) in now.clocks.items():
        first = cluster.first[topic]
        cluster.clocks[topic] = ClockIndex(cluster.settings.unit_us, list(times_us), list(offsets), now_us, first)
    cluster.clocks[GPU_SAMPLES] = cluster.clocks[GPU_SAMPLES].below(cluster.position[GPU_SAMPLES], None)
    cluster.ranges = {start: (first, last) for start, first, last in now.ranges}
    for history in now.nodes:
        cluster.node(history.node).history = history_of(history)
        cluster.late_nodes.add(history.node)
