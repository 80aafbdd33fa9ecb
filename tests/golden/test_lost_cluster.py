"""A story: a record under a mistyped cluster name must not hold progress back for ever."""

from schemas.headers import Headers, encode_headers
from schemas.names import POD_EVENTS
from schemas.pods import NodeRecord, encode_record
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.contents import LogRecord
from stream_jobs.core.meter import PartitionMeter
from stream_jobs.core.settings import MeterSettings, Source
from tests.golden.test_late_pieces import SECOND, START, clock

DAY_S = 86_400


def test_lost_cluster_is_forgotten_beyond_the_reach() -> None:
    """After the reach without a clock of its own, a cluster no longer pins where the next worker begins."""
    meter = PartitionMeter(MeterSettings(simulated_time=True), Source(0))
    typo = encode_headers(Headers(record="node", cluster="prodd", node="n"))
    meter.feed(POD_EVENTS, [LogRecord(0, START, typo, encode_record(NodeRecord(name="n")))])
    for offset in range(1, 15):
        at_s = offset * DAY_S // 2
        for topic in TOPICS:
            record = clock(topic, offset, at_s)
            moved = LogRecord(record.offset, START + at_s * SECOND, record.headers, record.payload)
            meter.feed(topic, [moved])
        progress = meter.progress()
        assert progress is not None
        assert (progress.offsets[POD_EVENTS] == 0) is (offset <= 12)
    assert (meter.metrics()["clusters_forgotten"], meter.forgotten) == (1, ["prodd"])
