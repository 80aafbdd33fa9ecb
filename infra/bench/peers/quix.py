"""A quixstreams job: tumbling windows per pod, state in RocksDB with its changelog in Kafka, sums to a topic.

Usage: python -m infra.bench.peers.quix BROKER SAMPLES. All settings are the library's own but for the broker.
"""

import sys
import tempfile
from typing import Any

from quixstreams import Application
from quixstreams.dataframe.windows.aggregations import Count, Sum

from infra.bench.peers.watch import Watch

WINDOW_MS, GRACE_MS = 60_000, 10_000


def main(bootstrap: str, samples: int) -> None:
    """Runs until all samples were taken."""
    watch, seen = Watch("quixstreams", samples), 0

    def event_time(value: Any, headers: Any, timestamp: float, kind: Any) -> int:
        nonlocal seen
        watch.begin()
        seen += 1
        if seen == samples:
            app.stop()
        return int(value["ts"])

    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            broker_address=bootstrap, consumer_group="quix", auto_offset_reset="earliest", state_dir=folder,
            loglevel="ERROR",
        )  # fmt: skip
        frame = app.dataframe(app.topic("samples", value_deserializer="json", timestamp_extractor=event_time))
        windows = frame.tumbling_window(WINDOW_MS, grace_ms=GRACE_MS).agg(n=Count(), s=Sum("sm_util"))
        sums = windows.final().apply(lambda window: {"w": window["start"], "n": window["n"], "s": window["s"]})
        sums.to_topic(app.topic("sums", value_serializer="json"))
        app.run()
        watch.end()
    watch.report()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
