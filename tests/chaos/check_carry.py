"""Says where the carry of a progress record is not what gpu-samples has made below its offset. Pure.

Held against the oracle's own walk (tests/property/oracle_log.py), stopped at that offset.
"""

from collections import defaultdict

from stream_jobs.core.carry import NodeCarry
from stream_jobs.core.settings import MeterSettings
from tests.chaos.read_back import ProgressRecord
from tests.property.oracle_log import NodeWalk


def compare_carry(rows: list, records: list[ProgressRecord], settings: MeterSettings) -> list[str]:
    """Differences of one partition's records; `rows` are its gpu-samples as `parse` gives them."""
    wanted: dict[tuple[str, str], dict[int, list[tuple[ProgressRecord, NodeCarry]]]] = defaultdict(dict)
    for record in records:
        for cluster in record.carry.clusters:
            for node in cluster.nodes:
                at = wanted[cluster.cluster, node.node]
                at.setdefault(record.carry.samples_offset, []).append((record, node))
    found = []
    for (cluster_name, node_name), places in wanted.items():
        walk, left = NodeWalk([], cluster_name, node_name, settings), iter(rows)
        row = next(left, None)
        for offset in sorted(places):
            while row is not None and row[0] < offset:
                walk.take(*row)
                row = next(left, None)
            for record, carry in places[offset]:
                if wrong := _differing(walk, carry, _closed_to(record, cluster_name, node_name)):
                    found.append(
                        f"progress {record.partition}/{record.offset} does not carry {node_name} "
                        f"as it was at offset {offset}: {', '.join(wrong)}"
                    )
    return found


def _closed_to(record: ProgressRecord, cluster: str, node: str) -> int:
    return next((to_us for c, n, to_us in record.carry.closed_to_us if (c, n) == (cluster, node)), 0)


def _differing(walk: NodeWalk, carry: NodeCarry, closed_to_us: int) -> list[str]:
    seen = {
        (sender.boot_id, sender.epoch_us, seq)
        for sender in carry.senders
        for first, last in sender.intervals
        for seq in range(first, last + 1)
    }
    needed = {window: cut for window, cut in walk.cuts.items() if window >= closed_to_us}
    held = {
        "sequence numbers": seen == walk.seen,
        "watermark": carry.watermark_us == walk.mark,
        "boots": [life.boots for life in carry.lives] == [walk.boots],
        "cut to": carry.cut_to_us == walk.cut_to,
        "cuts": needed.items() <= dict(carry.cuts).items(),
    }
    return [name for name, holds in held.items() if not holds]
