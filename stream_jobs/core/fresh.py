"""Which nodes of a cluster have readings that no provisional figure shows yet, and over which time. Pure.

Holds at most one entry a node, also where nobody takes any (tests/unit/stream_jobs/core/test_fresh.py).
"""

from dataclasses import dataclass, field

Touched = tuple[int, int]
"""From the start to the end of the time that readings touched."""


@dataclass(slots=True)
class Fresh:
    """Nodes in the order in which they were first touched since they were last taken."""

    touched: dict[str, Touched] = field(default_factory=dict)
    _taken_s: dict[str, float] = field(default_factory=dict)

    def touch(self, node: str, start_us: int, end_us: int) -> None:
        """Notes that a reading touched a time."""
        known = self.touched.get(node)
        self.touched[node] = (start_us, end_us) if known is None else (min(known[0], start_us), max(known[1], end_us))

    def drop(self, node: str) -> None:
        """Forgets a node."""
        self.touched.pop(node, None)
        self._taken_s.pop(node, None)

    def take(self, most: int, now_s: float, every_s: float) -> list[tuple[str, Touched]]:
        """Up to `most` nodes that waited longest, none that was taken less than `every_s` before; they are taken."""
        due: list[tuple[str, Touched]] = []
        for node, time in self.touched.items():
            if len(due) == most:
                break
            if now_s - self._taken_s.get(node, -every_s) >= every_s:
                due.append((node, time))
        for node, _ in due:
            del self.touched[node]
            self._taken_s[node] = now_s
        return due
