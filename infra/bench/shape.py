"""The shape of a fleet whose log is measured, and what a meter must make of it. Pure numbers.

Nodes read at 1 Hz and send what they read every 15 s unless said otherwise, spread evenly over that time.
Law: `windows` is what the meter closes of the log (tests/unit/infra/bench/test_fleet_log.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

CLUSTER = "fleet"
START_US = 1_790_000_100_000_000
"""A window edge for windows of any length up to five minutes."""
SECOND_US = 1_000_000
SNAPSHOT_US = 60 * SECOND_US
GPUS_A_NODE = 8
SAMPLE_PERIOD_US = 166_667
"""Between two utilisation samples of a GPU; six make a reading of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """A fleet: `pods` share each GPU and its `processes` evenly; windows and lateness are the meter's."""

    nodes: int
    windows: int = 1
    window_s: int = 60
    lateness_s: int = 10
    processes: int = 10
    pods: int = 2
    partitions: int = 8
    reading_s: int = 1
    flush_s: int = 15
    start_us: int = START_US

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return self.nodes * GPUS_A_NODE

    @property
    def seconds(self) -> int:
        """Event time of the log: until each node has said that its last window and the lateness are over."""
        return self.windows * self.window_s + self.lateness_s + self.flush_s + 2

    @property
    def flush_us(self) -> int:
        """Between two reading messages of a node."""
        return self.flush_s * SECOND_US

    @property
    def readings_a_message(self) -> int:
        """Readings that one message holds."""
        return self.flush_s // self.reading_s

    @property
    def rows_a_message(self) -> int:
        """Process rows of one reading message: one for each reading, GPU and process."""
        return self.readings_a_message * GPUS_A_NODE * self.processes

    def phase_us(self, node: int) -> int:
        """When a node begins to read, a second after the start or later; nodes differ in it, also within a second."""
        return SECOND_US + node * self.flush_us // self.nodes

    def flushes(self, node: int) -> int:
        """Reading messages that a node sends within the log."""
        return (self.seconds * SECOND_US - self.phase_us(node)) // self.flush_us

    def windows_of(self, node: int, window_s: int, lateness_s: int) -> int:
        """Windows of a node that a meter with these settings closes."""
        complete_us = self.phase_us(node) + self.flushes(node) * self.flush_us - behind_us(GPUS_A_NODE - 1)
        return max(0, (complete_us - lateness_s * SECOND_US) // (window_s * SECOND_US))

    def windows_in_all(self, window_s: int, lateness_s: int) -> int:
        """Windows of all nodes that a meter with these settings closes."""
        return sum(self.windows_of(node, window_s, lateness_s) for node in range(self.nodes))

    @property
    def messages(self) -> int:
        """Reading messages in the log."""
        return sum(self.flushes(node) for node in range(self.nodes))

    @property
    def rows(self) -> int:
        """Process rows in the log, the samples of this benchmark."""
        return self.messages * self.rows_a_message

    def node_names(self) -> Iterator[str]:
        """Names of the nodes, in the order of their phase."""
        return (node_name(node) for node in range(self.nodes))


def behind_us(gpu: int) -> int:
    """How long before a reading a GPU's newest sample was: each takes them at times of its own."""
    return (gpu + 1) * SAMPLE_PERIOD_US // (GPUS_A_NODE + 1)


def node_name(node: int) -> str:
    """Name of a node."""
    return f"node-{node:05d}"


def node_hex(node: int) -> bytes:
    """Eight digits that make a node's identities its own."""
    return f"{node:08x}".encode()
