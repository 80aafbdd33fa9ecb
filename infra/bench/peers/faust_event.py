"""A Faust job as its documentation shows it: an agent over events, a Table of sums per pod and minute.

Usage: python -m infra.bench.peers.faust_event BROKER SAMPLES. The table has its changelog in Kafka; it sends nothing
on, which is less than the others do.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import faust

from infra.bench.peers.watch import Watch

WINDOW_MS = 60_000


class Sample(faust.Record, serializer="json"):
    """One sample as it comes."""

    ts: int
    node: str
    gpu: int
    pod: str
    sm_util: int


def make_app(bootstrap: str, folder: str, samples: int) -> Any:
    """The job; it ends its process after so many samples."""
    app = faust.App(
        "faust-event", broker=f"kafka://{bootstrap}", store="memory://", datadir=folder, web_enabled=False,
        topic_partitions=4, broker_session_timeout=6, broker_heartbeat_interval=1, broker_request_timeout=15,
    )  # fmt: skip
    topic = app.topic("samples", value_type=Sample, key_type=bytes, key_serializer="raw")
    sums = app.Table("sums-by-pod", default=lambda: [0, 0], partitions=4)
    watch = Watch("faust_event", samples)
    seen = 0

    async def add(stream: Any) -> None:
        nonlocal seen
        async for sample in stream:
            watch.begin()
            key = f"{sample.ts // WINDOW_MS * WINDOW_MS}/{sample.pod}"
            count, points = sums[key]
            sums[key] = [count + 1, points + sample.sm_util]
            seen += 1
            if seen == samples:
                _finish(watch, sums)

    app.agent(topic)(add)
    return app


def _finish(watch: Watch, sums: Any) -> None:
    watch.end()
    first = min(int(key.split("/")[0]) for key in sums)
    own = [pair for key, pair in sums.items() if key.startswith(f"{first}/")]
    watch.report(count=sum(pair[0] for pair in own), points=sum(pair[1] for pair in own))
    # Its own shutdown takes seconds and is no part of what is measured.
    os._exit(0)


def main(bootstrap: str, samples: int) -> None:
    """Runs until all samples were taken."""
    with tempfile.TemporaryDirectory() as folder:
        app = make_app(bootstrap, str(Path(folder)), samples)
        faust.Worker(app, loglevel="ERROR", quiet=True, redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
