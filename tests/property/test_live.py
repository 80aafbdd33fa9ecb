"""Provisional figures over whole logs: equal to the final ones once all is in, and adding up at every moment."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.ids import UNOBSERVED
from stream_jobs.core.history import TOPICS
from stream_jobs.core.live import open_window, provisional_rows
from stream_jobs.core.meter import PartitionMeter
from tests.property.drive import SETTINGS, SOURCE, drain
from tests.property.workload import make_log

SEEDS = st.integers(0, 10_000)
_OF_READINGS = (
    "used_us", "used_variance_us2", "resident_us", "charged_us", "hot_idle_us", "memory_byte_ms", "energy_mj",
    "observed_us", "memory_observed_us", "energy_observed_us",
)  # fmt: skip
"""What readings alone decide; the others run with time also where no reading tells of it."""
_IDENTITY = (
    "gpu_model", "holder_kind", "namespace", "pod_name", "pod_uid", "container_name", "owner_kind", "owner_name",
    "basis", "window_end_us", "meter_version", "weight_slices", "weight_total",
)  # fmt: skip
_KEY = ("cluster", "node", "gpu_uuid", "window_start_us", "holder")


def _by_key(rows):
    return {tuple(row[name] for name in _KEY): row for row in rows}


def _ready(meter):
    """Provisional rows of every window that can be closed now."""
    windows = []
    for cluster in meter._clusters.values():
        for node in cluster.nodes.values():
            for start in SETTINGS.calendar.starts(node.closed_to_us, node.cut_to_us) if node.started else ():
                windows.append(open_window(cluster, node, start))
    return _by_key(provisional_rows(windows, SOURCE, SETTINGS.calendar).to_pylist()) if windows else {}


def _walk(log, rng):
    """A meter after each of many pieces of a log in a random interleaving."""
    meter = PartitionMeter(SETTINGS, SOURCE)
    while any(meter.position[t] < len(log[t]) for t in TOPICS):
        topic = rng.choice(TOPICS)
        at = meter.position[topic]
        meter.feed(topic, log[topic][at : at + rng.choice([1, 5, 40, 200])])
        yield meter


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_provisional_rows_are_the_final_ones_once_all_is_in(seed: int) -> None:
    """At a window's close its provisional rows are the final ones: all of it where readings reach its end, else all
    that readings decide."""
    whole = compared = 0
    for meter in _walk(make_log(seed), random.Random(seed)):
        live = _ready(meter)
        final = _by_key(row for table in drain(meter) for row in table.to_pylist())
        groups = {key[:4]: live[key]["as_of_us"] for key in live}
        for key, row in final.items():
            as_of_us = groups.get(key[:4])
            if as_of_us is None or row["holder_kind"] == UNOBSERVED:
                continue
            got = live.get(key)
            if as_of_us == row["window_end_us"]:
                assert got is not None
                assert {n: got[n] for n in got if n in row} == {n: row[n] for n in got if n in row}
                whole += 1
            elif got is not None or any(row[name] for name in _OF_READINGS[:7]):
                assert got is not None
                assert {n: got[n] for n in (*_OF_READINGS, *_IDENTITY)} == {
                    n: row[n] for n in (*_OF_READINGS, *_IDENTITY)
                }
            compared += 1
    assert compared
    assert whole


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_provisional_rows_add_up_at_any_moment(seed: int) -> None:
    """At any moment, over whatever has come: per GPU and window, charged is the time so far, and all but unobserved
    the observed time; asking for them changes no final row."""
    rng, now_s, seen = random.Random(seed), 0.0, 0
    quiet = [table for meter in _walk(make_log(seed), random.Random(seed)) for table in drain(meter)]
    asked = []
    for meter in _walk(make_log(seed), random.Random(seed)):
        now_s += rng.choice([0.0, 1.0, 5.0])
        table = meter.provisional(rng.choice([1, 100]), now_s, 2.0)
        spent, observed, life = {}, {}, {}
        for row in table.to_pylist() if table else ():
            group = (row["node"], row["gpu_uuid"], row["window_start_us"])
            spent[group] = spent.get(group, 0) + row["charged_us"]
            observed[group] = observed.get(group, 0) + row["charged_us"] * (row["holder_kind"] != UNOBSERVED)
            life[group] = (row["lifetime_us"], row["observed_us"])
            assert row["window_start_us"] < row["as_of_us"] <= row["window_end_us"]
            assert row["lifetime_us"] == row["as_of_us"] - row["window_start_us"]
        seen += len(spent)
        assert {g: (spent[g], observed[g]) for g in spent} == life
        asked += drain(meter)
    assert seen
    assert [table.to_pylist() for table in asked] == [table.to_pylist() for table in quiet]
