"""Nodes that can have no rows any more are dropped whole, and come back as new ones, whatever the crashes."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.names import GPU_SAMPLES
from stream_jobs.core.carry import decode_carry
from stream_jobs.core.cluster import TOPICS
from stream_jobs.core.meter import PartitionMeter
from tests.property.drive import SETTINGS, SOURCE, content, drain
from tests.property.lives import CLOCK_S, REACH_S, lives_log
from tests.property.workload import SECOND, START

SEEDS = st.integers(0, 10_000)
SHORT = replace(SETTINGS, reach_us=REACH_S * SECOND)


def live_through(log, rng=None, crashes=0, lost_work=False):
    """Tables published over a log, in slices of some minutes; a crash comes after a progress, or with work lost too."""
    meter, tables, saved, to_us = PartitionMeter(SHORT, SOURCE), [], None, START
    last_us = max(log[topic][-1].append_us for topic in TOPICS)
    while to_us <= last_us:
        to_us += (rng.randrange(30, 900) if rng else 600) * SECOND
        topics = rng.sample(TOPICS, rng.choice([2, 3, 3])) if rng and to_us <= last_us else TOPICS
        while left := [t for t in topics if _next(log, meter, t, 1, to_us)]:
            for topic in left:
                meter.feed(topic, _next(log, meter, topic, rng.choice([5, 50, 300]) if rng else 100, to_us))
            tables += drain(meter, log)
        if not lost_work or rng.random() < 0.1:
            saved = meter.progress() or saved
        if crashes and rng.random() < 0.15:
            crashes -= 1
            meter = PartitionMeter(SHORT, SOURCE, saved)
    return tables, meter


def _next(log, meter, topic, most, to_us):
    at = meter.position[topic]
    return [record for record in log[topic][at : at + most] if record.append_us < to_us]


def rows(tables, renamed=False):
    """{key: row} of the rows published; a node of a later life by its first name."""
    found = {}
    for (node, *key), copies in content(tables).items():
        assert len(copies) == 1, f"{node} {key} was published {len(copies)} times"
        found[node.split("~")[0], *key] = copies[0] | {"node": node.split("~")[0]}
    return found


@settings(max_examples=6, deadline=None)
@given(SEEDS)
def test_node_that_comes_back_after_its_end_is_a_new_one(seed: int) -> None:
    """Rows and revisions are those of a log in which each life after an end has a node name of its own."""
    assert rows(live_through(lives_log(seed))[0]) == rows(live_through(lives_log(seed, renamed=True))[0])


@settings(max_examples=6, deadline=None)
@given(SEEDS, SEEDS)
def test_end_of_a_node_publishes_nothing_twice(seed: int, order: int) -> None:
    """Restarts from the newest progress, also from one that begins long before an end, give each row once."""
    log = lives_log(seed)
    expected = rows(live_through(log)[0])
    assert rows(live_through(log, random.Random(order), crashes=12)[0]) == expected


@settings(max_examples=6, deadline=None)
@given(SEEDS, SEEDS)
def test_crash_before_or_after_an_end_changes_no_first_result(seed: int, order: int) -> None:
    """After crashes that lose hours of work no first result is missing or extra, and all copies are equal."""
    log = lives_log(seed)
    expected = {key: row for key, row in rows(live_through(log)[0]).items() if key[4] == 0}
    copies = content(live_through(log, random.Random(order), crashes=8, lost_work=True)[0])
    first = {key: seen for key, seen in copies.items() if key[4] == 0}
    assert first.keys() == expected.keys()
    assert all(row == expected[key] for key, seen in first.items() for row in seen)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_of_an_ended_node_is_kept(seed: int) -> None:
    """After hours without a record of any node, neither the meter nor its progress knows a node's name."""
    log = lives_log(seed, hours=4)
    end_us = max(record.append_us for topic in TOPICS for record in log[topic])
    clocks = {topic: [r for r in log[topic] if dict(r.headers)["record"] == b"clock"] for topic in TOPICS}
    assert len(clocks[GPU_SAMPLES]) < len(log[GPU_SAMPLES])
    later = lives_log(seed, hours=14)
    whole = {}
    for topic in TOPICS:
        more = [
            r for r in later[topic] if dict(r.headers)["record"] == b"clock" and r.append_us > end_us + CLOCK_S * SECOND
        ]
        joined = log[topic] + more
        whole[topic] = [type(r)(offset, r.append_us, r.headers, r.payload) for offset, r in enumerate(joined)]
    tables, meter = live_through(whole)
    assert rows(tables)
    progress = meter.progress()
    assert progress is not None
    carry = decode_carry(progress.carry)
    (now,), (cluster,), (state,) = carry.now, carry.clusters, meter._clusters.values()
    kept = (
        state.nodes,
        state.fresh.touched,
        state.fresh._taken_s,
        state.late_nodes,
        state.ended.at,
        state.gaps.ends_us,
    )
    assert [list(part) for part in kept] == [[]] * len(kept)
    assert (carry.closed_to_us, carry.gone, now.nodes, now.ended, cluster.nodes) == ([], [], [], [], [])
