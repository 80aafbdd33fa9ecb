"""Nodes that are over: without rows from now on, and beyond what a late record may revise. All of them is forgotten.

Judged by gpu-samples alone at clock records of it, so every reader of the log finds a node over at the same record. A
re-read ends it there again, whatever it could judge, and closes none of its windows anew; one that comes back is a new
node. Law: a log with nodes that end and come back gives the same rows after any crash, and each once
(tests/property/test_ended.py).
"""

from dataclasses import dataclass, field

from schemas.names import GPU_SAMPLES

from .calendar import LONGEST_US
from .node import NodeState
from .settings import MeterSettings

NodeKey = tuple[str, str]
SLACK_US = 3_600_000_000
"""By how much the closing and revising of windows may lag behind the clock and yet not delay an end."""


@dataclass(slots=True)
class EndedNodes:
    """Of a cluster, by the rising offsets of the clock records that ended them: nodes, and how far each was closed.

    `closed_to`, `gone` and `known` as in cluster.py.
    """

    cluster: str
    settings: MeterSettings
    closed_to: dict[NodeKey, int]
    gone: set[NodeKey]
    known: dict[str, int]
    at: dict[int, dict[str, int]] = field(default_factory=dict)

    def judge(self, nodes: dict[str, NodeState], now_us: int, offset: int) -> list[str]:
        """Nodes that a clock record of gpu-samples ends; each starts anew, with what the other topics told of it."""
        is_known = offset < self.known[GPU_SAMPLES]
        if is_known:
            over = [name for name in self.at.get(offset, ()) if name in nodes]
        else:
            over = [name for name, node in nodes.items() if is_over(node, now_us, self.settings)]
        if over and not is_known:
            self.at[offset] = {name: nodes[name].closed_to_us for name in over}
        for name in over:
            node, key = nodes[name], (self.cluster, name)
            if not is_known:
                self.closed_to.pop(key, None)
                self.gone.discard(key)
            # In a re-read, history and what is told to be gone are of now: of the node that came back, if one did.
            nodes[name] = node.anew(key in self.gone, node.history if is_known else node.history.anew())
        return over

    def closed_to_at(self, name: str, offset: int, default_us: int = 0) -> int:
        """How far the node that was there at an offset was closed before a restart, if it was."""
        for at, names in self.at.items():
            if at >= offset and name in names:
                return names[name]
        return self.closed_to.get((self.cluster, name), default_us)

    def carry(self, samples_offset: int) -> list[tuple[int, str, int]]:
        """(offset, node, closed to) of those that a restart meets which begins at an offset; the others are dropped."""
        self.at = {offset: names for offset, names in self.at.items() if offset >= samples_offset}
        return [(offset, name, closed) for offset, names in self.at.items() for name, closed in names.items()]

    def restore(self, carry: list[tuple[int, str, int]]) -> None:
        """Takes up a carry."""
        for offset, name, closed_us in carry:
            self.at.setdefault(offset, {})[name] = closed_us


def is_over(node: NodeState, now_us: int, s: MeterSettings) -> bool:
    """Whether a node has no rows from now on, and none that may be revised.

    A window counts devices up to the reach after they were listed; none of a deleted node without readings does.
    """
    closed_for_good_us = now_us - s.reach_us - LONGEST_US - SLACK_US
    if node.last_us >= closed_for_good_us or not (node.started or node.senders):
        return False
    if node.history.pending(now_us - SLACK_US):
        return False
    if not node.started:
        return True
    quiet = node.history.quiet[-1] if node.history.quiet else None
    if quiet and quiet.absent and quiet.end_us == node.closed_to_us and quiet.start_us < closed_for_good_us:
        return True
    return node.last_us + s.reach_us < min(closed_for_good_us, node.closed_to_us)
