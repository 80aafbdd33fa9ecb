"""A node's window as its closing function gets it: every record that its cuts let through, and nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.pods import NodeRecord, PodRecord
from schemas.snapshots import ProcessIdentity, Snapshot

from .held import AnyReading
from .held import DeviceFacts as DeviceFacts
from .identity import process_index

REPLICAS_LABEL = "nvidia.com/gpu.replicas"
_REPLICAS = re.compile(r"[1-9][0-9]{0,5}")


SenderKey = tuple[str, int]
"""(boot id, epoch) of a collector."""


@dataclass(slots=True)
class SeenSnapshot:
    """A snapshot in the log; its process index is made when first asked for."""

    offset: int
    sender: SenderKey
    snapshot: Snapshot
    _index: dict[tuple[int, int], ProcessIdentity] | None = None

    def process(self, pid: int, start_ticks: int) -> ProcessIdentity | None:
        """The identity of a process, None where the snapshot does not know it."""
        if self._index is None:
            self._index = process_index(self.snapshot)
        return self._index.get((pid, start_ticks))

    def drop_index(self) -> None:
        """Gives the memory of the index back; it is made again when asked for."""
        self._index = None


@dataclass(frozen=True, slots=True)
class SeenGap:
    """A gap of a collector's spool in the log, and the time that it touches, both ends included."""

    offset: int
    start_us: int
    end_us: int


class Stretch(NamedTuple):
    """The devices of a node up to a time, from that of the stretch before on."""

    end_us: int
    devices: list[DeviceFacts]


@dataclass(slots=True)
class NodeWindow:
    """Input of one result: readings that touch [start, end), snapshots, pods and the node, all below the cuts.

    `cuts` are the offsets in gpu-samples, pod-mappings and pod-events; `boots` lists boot ids in log order.
    """

    cluster: str
    node: str
    start_us: int
    end_us: int
    revision: int
    cuts: tuple[int, int, int]
    devices: list[DeviceFacts]
    readings: Sequence[AnyReading]
    snapshots: list[SeenSnapshot]
    pods: list[PodRecord]
    node_record: NodeRecord | None = None
    boots: list[str] = field(default_factory=list)
    spool_gap: bool = False
    """Some gap of a collector's spool touches it."""
    listing: int = -1
    """Offset of the reading whose device list counts; -1 without one."""
    listed_us: int = 0
    """When that was read."""
    stretches: list[Stretch] = field(default_factory=list)
    """Its devices over its time, where some GPU is in MIG mode; else empty: all are there all the time."""
    _numbered: dict[tuple[SenderKey, int], SeenSnapshot] | None = field(default=None, init=False, repr=False)

    @property
    def has_spans(self) -> bool:
        """Whether some reading spans time of the window; one that was merely read in it does not."""
        spans = ((r.device["span_start_us"], r.device["span_end_us"]) for r in self.readings)
        return any(((end > start) & (end > self.start_us) & (start < self.end_us)).any() for start, end in spans)

    def snapshot(self, sender: SenderKey, mapping_seq: int) -> SeenSnapshot | None:
        """The first snapshot of a sender's with a number, None where none is below the cut."""
        if self._numbered is None:
            self._numbered = {(s.sender, s.snapshot.mapping_seq): s for s in reversed(self.snapshots)}
        return self._numbered.get((sender, mapping_seq))

    @property
    def replicas(self) -> int:
        """Slots a GPU, by the node's label; 1 without one."""
        text = (self.node_record.labels if self.node_record else {}).get(REPLICAS_LABEL, "1")
        return int(text) if _REPLICAS.fullmatch(text) else 1
