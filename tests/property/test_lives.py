"""Lives of a node: one that was silent for long comes back as a new one, and what has ended is dropped."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.core.carry import decode_carry
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.meter import PartitionMeter
from tests.property.drive import SOURCE, content, drain
from tests.property.lives import SHORT, lives_log


def _live_through(log):
    """Tables published over a log that is read a few minutes at a time, and the meter."""
    meter, tables = PartitionMeter(SHORT, SOURCE), []
    for first in range(0, max(len(records) for records in log.values()), 40):
        for topic in TOPICS:
            meter.feed(topic, log[topic][first : first + 40])
        tables += drain(meter, log)
        meter.progress()
    return tables, meter


def _rows(log):
    """{key: row} of the rows published, each once; a node of a later life by its first name."""
    tables, _ = _live_through(log)
    found, published = {}, content(tables)
    for (node, *key), copies in published.items():
        assert len(copies) == 1, f"{node} {key} was published {len(copies)} times"
        found[node.split("~")[0], *key] = copies[0] | {"node": node.split("~")[0]}
    assert len(found) == len(published)
    return found


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10_000))
def test_node_that_comes_back_after_its_life_ended_is_a_new_one(seed: int) -> None:
    """Rows and revisions are those of a log in which each life after an end has a node name of its own."""
    assert _rows(lives_log(seed, clear=True)) == _rows(lives_log(seed, clear=True, renamed=True))


@pytest.mark.parametrize("seed", range(4))
def test_nothing_of_a_node_is_kept_that_ended_long_ago(seed: int) -> None:
    """After hours of clocks alone, neither the meter nor its progress knows a node's name or an old gap."""
    log, later = lives_log(seed, hours=4), lives_log(seed, hours=14)
    whole = {}
    for topic in TOPICS:
        clocks = [r for r in later[topic] if dict(r.headers)["record"] == b"clock"]
        records = log[topic] + [r for r in clocks if r.append_us > log[topic][-1].append_us]
        whole[topic] = [replace(record, offset=offset) for offset, record in enumerate(records)]
    tables, meter = _live_through(whole)
    assert content(tables)
    progress = meter.progress()
    assert progress is not None
    carry, (state,) = decode_carry(progress.carry), meter._clusters.values()
    (now,), (cluster,) = carry.now, carry.clusters
    kept = (state.nodes, state.fresh.touched, state.fresh._taken_s, state.late_nodes, state.gaps.ends_us)
    assert [list(part) for part in kept] == [[]] * len(kept)
    assert (carry.closed_to_us, carry.gone, now.nodes, cluster.nodes) == ([], [], [], [])
