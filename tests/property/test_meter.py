"""The meter over whole logs: equal to the oracle, whatever the interleaving, duplicates, arrival order or crash."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.names import GPU_SAMPLES
from tests.property.drive import SETTINGS, content, measures, run
from tests.property.oracle import gap_windows, rows_of
from tests.property.oracle_log import NodeWalk, clock_points, parse
from tests.property.workload import make_log

SEEDS = st.integers(0, 10_000)


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_meter_equals_the_oracle(seed: int) -> None:
    """Rows of a log with late, doubled, reordered, overlapping and garbage records are the oracle's, to the integer."""
    log = make_log(seed)
    tables, _ = run(log, random.Random(seed))
    assert measures(tables) == rows_of(log, SETTINGS)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(0, 3))
def test_windows_that_a_spool_gap_touches_say_so(seed: int, crashes: int) -> None:
    """The flag stands on every row of exactly the windows the oracle names, also after restarts from progress."""
    log = make_log(seed)
    tables, _ = run(log, random.Random(seed), crashes=crashes)
    rows = [row for table in tables for row in table.to_pylist() if row["revision"] == 0]
    flagged = {(row["node"], row["window_start_us"]) for row in rows if "spool_gap" in row["flags"]}
    plain = {
        (row["node"], row["window_start_us"])
        for row in rows
        if "spool_gap" not in row["flags"] and row["holder_kind"] != "violation"
    }
    touched = gap_windows(log, SETTINGS)
    assert flagged == touched & {(row["node"], row["window_start_us"]) for row in rows}
    assert not plain & touched


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_conservation_holds_in_every_window(seed: int) -> None:
    """Charged adds up to the lifetime, and all but unobserved to the observed time, for every GPU and window."""
    tables, meter = run(make_log(seed))
    spent, seen, lifetime = {}, {}, {}
    for table in tables:
        for row in table.to_pylist():
            if row["revision"]:
                continue
            key = (row["gpu_uuid"], row["window_start_us"])
            spent[key] = spent.get(key, 0) + row["charged_us"]
            if row["holder_kind"] != "unobserved":
                seen[key] = seen.get(key, 0) + row["charged_us"]
            lifetime[key] = (row["lifetime_us"], row["observed_us"])
    assert spent
    assert meter.metrics()["violations"] == 0
    assert {k: (spent[k], seen.get(k, 0)) for k in spent} == lifetime


@settings(max_examples=12, deadline=None)
@given(SEEDS, SEEDS)
def test_interleaving_of_topics_decides_nothing(seed: int, order: int) -> None:
    """Two meters that read the topics in different interleavings publish the same rows."""
    log = make_log(seed)
    assert content(run(log, random.Random(order))[0]) == content(run(log)[0])


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_arrival_order_within_lateness_decides_nothing(seed: int) -> None:
    """Readings up to 20 s out of order, mappings and events in any order between two clock records: the same rows."""
    log = make_log(seed, late=False)
    rng = random.Random(seed)
    shuffled = {}
    for topic, records in log.items():
        key, clocks = {}, 0
        for r in records:
            clock = dict(r.headers)["record"] == b"clock"
            clocks += clock
            free = r.append_us + rng.randrange(20_000_000) if topic == GPU_SAMPLES else clocks + rng.random()
            key[r.offset] = (r.append_us if topic == GPU_SAMPLES else clocks) if clock else free
        order = sorted(records, key=lambda r, key=key: (key[r.offset], r.offset))
        shuffled[topic] = [type(r)(i, r.append_us, r.headers, r.payload) for i, r in enumerate(order)]
    one, other = measures(run(log)[0]), measures(run(shuffled)[0])
    first = {node for node, *_ in one}
    starts = {node: min(w for n, _, _, w in one.keys() | other.keys() if n == node) for node in first}
    keep = {k for k in one.keys() | other.keys() if k[3] > starts[k[0]]}
    assert {k: one.get(k) for k in keep} == {k: other.get(k) for k in keep}


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_duplicates_change_nothing(seed: int) -> None:
    """A log in which every reading is sent twice gives the rows of the log in which it is sent once."""
    log = make_log(seed, late=False)
    doubled = {}
    for topic, records in log.items():
        twice = [r for r in records for _ in range(2 if topic == GPU_SAMPLES else 1)]
        doubled[topic] = [type(r)(i, r.append_us, r.headers, r.payload) for i, r in enumerate(twice)]
    assert content(run(doubled)[0]) == content(run(log)[0])


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_watermarks_never_go_back_and_windows_close_once(seed: int) -> None:
    """A node's cuts rise with its windows, and an undisturbed meter publishes every key once."""
    log = make_log(seed)
    rows = parse(log)[GPU_SAMPLES]
    assert clock_points(rows, "c") == sorted(clock_points(rows, "c"))
    for node in {h.node for _, h, _ in rows if h.record == "reading"}:
        cuts = NodeWalk(rows, "c", node, SETTINGS).cuts
        ordered = [cuts[w] for w in sorted(cuts)]
        assert ordered == sorted(ordered)
    tables, _ = run(log, random.Random(seed))
    assert {len(copies) for copies in content(tables).values()} == {1}
