"""Nodes of a cluster that have windows cut and not closed, the one with the oldest open window first.

A window that cannot be closed yet holds up all that start later, since cuts in the other topics rise with time: so one
look tells that nothing is ready, however many nodes wait (tests/unit/stream_jobs/core/test_due.py).
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace

from .node import NodeState


@dataclass(slots=True)
class DueNodes:
    """A heap by the start of each node's oldest open window; an entry is set right when it comes to the top."""

    _heap: list[tuple[int, str]] = field(default_factory=list)
    _nodes: dict[str, NodeState] = field(default_factory=dict)

    def note(self, node: NodeState) -> None:
        """Takes up a node if it has windows to close."""
        if node.cuts and node.node not in self._nodes:
            self._nodes[node.node] = node
            heappush(self._heap, (node.closed_to_us, node.node))

    def drop(self, name: str) -> None:
        """Forgets a node."""
        self._nodes.pop(name, None)

    def first(self) -> NodeState | None:
        """The node whose oldest open window starts first, None where no window is cut and not closed."""
        while self._heap:
            start_us, name = self._heap[0]
            node = self._nodes.get(name)
            if node is None or node.closed_to_us not in node.cuts:
                heappop(self._heap)
                self.drop(name)
            elif node.closed_to_us != start_us:
                heapreplace(self._heap, (node.closed_to_us, name))
            else:
                return node
        return None
