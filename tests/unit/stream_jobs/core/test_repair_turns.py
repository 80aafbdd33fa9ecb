"""Which nodes revisions are looked for first."""

from unittest.mock import patch

from stream_jobs.core import repair
from stream_jobs.core.meter import PartitionMeter
from tests.property.drive import SOURCE, drain
from tests.property.lives import SHORT, lives_log


def test_nodes_with_late_facts_take_turns() -> None:
    """While a plan holds one node, the next begins behind it, so one that is late again and again holds none up."""
    log, meter = lives_log(5, hours=2), PartitionMeter(SHORT, SOURCE)
    for topic, records in log.items():
        meter.feed(topic, records)
    drain(meter)
    (cluster,) = meter._clusters.values()
    with patch.object(repair, "LOOKS_AT_ONCE", 1):
        seen = [repair.plan_repairs(cluster)[0].done[0][0] for _ in range(4)]
    assert len(set(seen)) >= 2
    assert seen == [*sorted(set(seen)), *sorted(set(seen))][: len(seen)]
