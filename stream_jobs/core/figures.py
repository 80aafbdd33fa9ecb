"""What a meter holds open and how far its event time has come, as numbers for people; changes nothing.

Pure. What is not known yet is left out, never 0 (tests/unit/stream_jobs/core/test_meter_figures.py).
"""

from collections import Counter
from collections.abc import Iterable

from schemas.names import GPU_SAMPLES

from .cluster import ClusterState
from .node import NodeState
from .settings import MeterSettings


def meter_figures(clusters: Iterable[ClusterState], settings: MeterSettings) -> dict[str, int]:
    """Nodes, windows begun and not closed, readings held; the lowest watermark and closed-until; newest clocks."""
    found = {"nodes": 0, "open_windows": 0, "buffered_readings": 0}
    watermarks, closed, clocks = list[int](), list[int](), list[int]()
    for cluster in clusters:
        clock_us = cluster.clocks[GPU_SAMPLES].now_us
        clocks += [clock_us] if clock_us is not None else []
        found["nodes"] += len(cluster.nodes)
        found["buffered_readings"] += sum(len(node.buffered) for node in cluster.nodes.values())
        alive = [node for node in cluster.nodes.values() if node.started and not node.gone]
        watermarks += [_watermark(node, settings) for node in alive]
        # Most nodes of a fleet are closed up to the same time.
        reached = Counter(node.closed_to_us for node in alive)
        closed += reached
        for closed_us, nodes in reached.items():
            found["open_windows"] += nodes * sum(1 for _ in settings.calendar.starts(closed_us, clock_us or 0))
    lowest = {"watermark_us": watermarks, "closed_to_us": closed, "clock_us": clocks}
    return found | {name: min(times) for name, times in lowest.items() if times}


def held_bytes(clusters: Iterable[ClusterState]) -> int:
    """Size of the columns of all readings that open windows hold."""
    return sum(
        held.reading.size_bytes for cluster in clusters for node in cluster.nodes.values() for held in node.buffered
    )


def topic_clocks(clusters: Iterable[ClusterState]) -> dict[str, int]:
    """How far each topic was read, in event time: its newest clock, of the cluster farthest on."""
    found: dict[str, int] = {}
    for cluster in clusters:
        for topic, clock in cluster.clocks.items():
            if clock.now_us is not None:
                found[topic] = max(clock.now_us, found.get(topic, clock.now_us))
    return found


def _watermark(node: NodeState, settings: MeterSettings) -> int:
    """What a node asserted, or what its silence was taken for, whichever is later."""
    return max(node.watermark_us or 0, node.cut_to_us + settings.lateness_us)
