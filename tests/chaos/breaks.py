"""Lines broken on purpose, each by its name, to see the harness catch them: `make chaos SEED=k BREAK=name`.

`python -m tests.chaos.breaks NAME worker ...` runs `gpumeter worker` with the line broken.
"""

import sys
from collections.abc import Callable

from infra.cli.main import main
from stream_jobs.core import cuts, meter, node
from stream_jobs.core.carry import NodeCarry, Progress, decode_carry, encode_carry


def _progress_at_position() -> None:
    """`PartitionMeter.progress`: the newest carry, whatever open windows still need."""

    def progress(self: meter.PartitionMeter) -> Progress | None:
        if not self._checkpoints:
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
        for cluster in carry.clusters:
            for known in cluster.nodes:
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
        carry.clusters = [cluster.carry() for cluster in self._clusters.values()]
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


BREAKS: dict[str, Callable[[], None]] = {
    function.__name__.strip("_").replace("_", "-"): function
    for function in (
        _progress_at_position, _high_water, _no_deduplication, _facts_above_the_cut, _readings_above_the_cut,
        _carry_forgotten, _carry_of_now, _cuts_forgotten,
    )
}  # fmt: skip

if __name__ == "__main__":
    BREAKS[sys.argv.pop(1)]()
    sys.exit(main())
