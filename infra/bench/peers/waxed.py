"""A bytewax job: tumbling windows per pod in memory, sums to a topic; one worker, no recovery store.

Usage: python -m infra.bench.peers.waxed BROKER SAMPLES. It ends at the end of the topic.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from infra.bench.peers.watch import Watch

WINDOW, LATENESS = timedelta(seconds=60), timedelta(seconds=10)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make_flow(bootstrap: str, watch: Watch) -> Dataflow:
    """The job."""

    def keyed(message: Any) -> tuple[str, tuple[int, int]]:
        watch.begin()
        sample = json.loads(message.value)
        return sample["pod"], (sample["ts"], sample["sm_util"])

    def record(item: tuple[str, tuple[int, tuple[int, int]]]) -> Any:
        pod, (window, (count, points)) = item
        start_ms = int((EPOCH + window * WINDOW).timestamp() * 1000)
        return KafkaSinkMessage(pod.encode(), json.dumps({"w": start_ms, "n": count, "s": points}).encode())

    flow = Dataflow("waxed")
    source = op.input("in", flow, KafkaSource([bootstrap], ["samples"], tail=False, batch_size=1000))
    rows = op.map("key", source, keyed)
    # Event time alone: with the machine's clock a job that is slower than its log would call its samples late.
    clock = win.EventClock(
        ts_getter=lambda row: datetime.fromtimestamp(row[0] / 1000, UTC),
        wait_for_system_duration=LATENESS,
        now_getter=lambda: EPOCH,
    )
    sums = win.fold_window(
        "sum", rows, clock, win.TumblingWindower(length=WINDOW, align_to=EPOCH),
        builder=lambda: (0, 0), folder=lambda sums, row: (sums[0] + 1, sums[1] + row[1]),
        merger=lambda one, other: (one[0] + other[0], one[1] + other[1]),
    )  # fmt: skip
    kafka.output("out", op.map("record", sums.down, record), brokers=[bootstrap], topic="sums")
    return flow


def main(bootstrap: str, samples: int) -> None:
    """Runs to the end of the topic."""
    watch = Watch("bytewax", samples)
    run_main(make_flow(bootstrap, watch))
    watch.end()
    watch.report()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
