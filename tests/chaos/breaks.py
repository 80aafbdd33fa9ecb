"""Lines broken on purpose, each by its name, to see the harness catch them: `make chaos-breaks`.

`make chaos SEED=k BREAK=name` runs one; `python -m tests.chaos.breaks NAME worker ...` is a `gpumeter worker` with the
line broken. `CAUGHT_ON` names a seed on which each is caught.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable

from confluent_kafka import TopicPartition

from infra.cli.main import main
from schemas.names import GPU_SAMPLES, METER_PROGRESS
from stream_jobs import log_reader, opening
from stream_jobs.core import cluster, cuts, history, late, meter, node
from stream_jobs.core.carry import HistoryCarry, NodeCarry, Progress, decode_carry, encode_carry
from stream_jobs.core.saved import carry_of
from stream_jobs.core.settings import MINUTE_US
from stream_jobs.progress import Pointer
from tests.chaos.read_back import newest_progress

_SILENT_S = 0.2


def _progress_at_position() -> None:
    """`PartitionMeter.progress`: the newest carry, whatever open windows still need."""

    def progress(self: meter.PartitionMeter) -> Progress | None:
        if not self._checkpoints.kept:
            return None
        buffered = [(n, n.buffered) for n in self._nodes()]
        for known in self._nodes():
            known.buffered = []
        try:
            return kept(self)
        finally:
            for known, readings in buffered:
                known.buffered = readings

    kept = meter.PartitionMeter.progress
    meter.PartitionMeter.progress = progress


def _high_water() -> None:
    """`SequenceSet.add`: only numbers above the highest seen are new."""

    def add(self: cuts.SequenceSet, seq: int) -> bool:
        if self.intervals and seq <= self.intervals[-1][1]:
            return False
        self.intervals = [[seq, seq]]
        return True

    cuts.SequenceSet.add = add


def _no_deduplication() -> None:
    """`SequenceSet.add`: every number is new."""
    cuts.SequenceSet.add = lambda self, seq: True


def _facts_above_the_cut() -> None:
    """`NodeState.window`: snapshots and pods are seen as soon as they were read, also above the cut."""
    kept = node.NodeState.window

    def window(self, start_us, cuts_, floors, settings):  # noqa: ANN001, ANN202
        return kept(self, start_us, (cuts_[0], 1 << 62, 1 << 62), floors, settings)

    node.NodeState.window = window


def _readings_above_the_cut() -> None:
    """`NodeState.window`: readings are seen as soon as they were read, also above the cut."""
    kept = node.NodeState.window

    def window(self, start_us, cuts_, floors, settings):  # noqa: ANN001, ANN202
        return kept(self, start_us, (1 << 62, *cuts_[1:]), floors, settings)

    node.NodeState.window = window


def _carry_forgotten() -> None:
    """`PartitionMeter._restore`: watermarks and sequence numbers of the carry are lost, its offsets are not."""
    kept = meter.PartitionMeter._restore

    def restore(self: meter.PartitionMeter, progress: Progress) -> None:
        carry = decode_carry(progress.carry)
        for one in carry.clusters:
            for known in one.nodes:
                known.senders, known.watermark_us = [], None
        kept(self, Progress(progress.offsets, encode_carry(carry)))

    meter.PartitionMeter._restore = restore


def _carry_of_now() -> None:
    """`PartitionMeter.progress`: the carry as it is now, kept with the offset that is still needed."""
    kept = meter.PartitionMeter.progress

    def progress(self: meter.PartitionMeter) -> Progress | None:
        found = kept(self)
        if found is None:
            return None
        carry = decode_carry(found.carry)
        carry.clusters = [carry_of(cluster) for cluster in self._clusters.values()]
        return Progress(found.offsets, encode_carry(carry))

    meter.PartitionMeter.progress = progress


def _cuts_forgotten() -> None:
    """`NodeState.carry`: cuts of windows that are cut and not closed are not carried."""
    kept = node.NodeState.carry

    def carry(self: node.NodeState) -> NodeCarry:
        found = kept(self)
        found.cuts = found.cuts[:0]
        return found

    node.NodeState.carry = carry


def _idle_by_wall_clock() -> None:
    """`ClusterState.take_clock`: a node is silent when nothing came for a moment of the machine's own time."""
    heard_s: dict[tuple[str, str], float] = defaultdict(time.monotonic)
    took_clock, took_reading = cluster.ClusterState.take_clock, cluster.ClusterState.take_reading

    def take_reading(self, headers, offset, columns):  # noqa: ANN001, ANN202
        heard_s[self.name, headers.node] = time.monotonic()
        return took_reading(self, headers, offset, columns)

    def take_clock(self: cluster.ClusterState, topic: str, now_us: int, offset: int, *more: bool) -> bool:
        moved = took_clock(self, topic, now_us, offset, *more)
        for known in self.nodes.values() if moved and topic == GPU_SAMPLES else ():
            if known.started and time.monotonic() - heard_s[self.name, known.node] > _SILENT_S:
                known.advance(now_us, offset, self.settings)
        return moved

    cluster.ClusterState.take_reading, cluster.ClusterState.take_clock = take_reading, take_clock


def _pointer_ignored() -> None:
    """`read_progress`: the newest record of a partition counts, whoever wrote it, at the offsets that are committed.

    A worker that lost its partition while it was frozen writes such a record; its commit is refused.
    """
    kept = log_reader.read_progress

    def read_progress(bootstrap_servers: str, partition: int, pointer: Pointer) -> Progress:
        committed = kept(bootstrap_servers, partition, pointer)
        found = newest_progress(bootstrap_servers, TopicPartition(METER_PROGRESS, partition))
        return Progress(committed.offsets, encode_carry(found.carry))

    opening.read_progress = read_progress


def _late_facts_forgotten() -> None:
    """`NodeHistory.carry`: late facts that wait for their minute are lost with a restart."""
    kept = history.NodeHistory.carry

    def carry(self: history.NodeHistory, node_name: str, events_floor: int) -> HistoryCarry:
        found = kept(self, node_name, events_floor)
        found.facts = []
        return found

    history.NodeHistory.carry = carry


def _minute_ignored() -> None:
    """`LateFact.minute_us`: a late record counts from the minute in which it came, not from the next."""
    late.LateFact.minute_us = property(lambda self: self.clock_us // MINUTE_US * MINUTE_US)


BREAKS: dict[str, Callable[[], None]] = {
    function.__name__.strip("_").replace("_", "-"): function
    for function in (
        _progress_at_position, _high_water, _no_deduplication, _facts_above_the_cut, _readings_above_the_cut,
        _carry_forgotten, _carry_of_now, _cuts_forgotten, _idle_by_wall_clock, _pointer_ignored,
        _late_facts_forgotten, _minute_ignored,
    )
}  # fmt: skip

CAUGHT_ON: dict[str, tuple[int, ...]] = {
    "progress-at-position": (1,),
    "high-water": (2,),
    "no-deduplication": (2,),
    "facts-above-the-cut": (2,),
    "readings-above-the-cut": (2,),
    "carry-forgotten": (1,),
    "carry-of-now": (13,),
    "cuts-forgotten": (2,),
    "idle-by-wall-clock": (1,),
    "pointer-ignored": (37, 26, 14, 34, 68),
    "late-facts-forgotten": (1,),
    "minute-ignored": (2,),
}

"""Seeds on which each shows, the next where it did not come to light on one: of two workers that are frozen or killed
near each other, the times of the machine decide which one writes last."""

if __name__ == "__main__":
    BREAKS[sys.argv.pop(1)]()
    sys.exit(main())
