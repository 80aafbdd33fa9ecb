"""Late records: every revision is the oracle's, whatever the interleaving, the duplicates and the crashes."""

import random
from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_jobs.core import gathered, repair, repairs
from stream_jobs.core.calendar import Change
from tests.property.drive import MEASURES, SETTINGS, content, measures, run
from tests.property.oracle import rows_of
from tests.property.oracle_late import changes, revisions_of
from tests.property.workload import START, make_log

SEEDS = st.integers(0, 10_000)
DIFFERENCES = {"d_held_us": 0, "d_used_us": 2, "d_charged_us": 3, "d_energy_mj": 4, "d_memory_byte_ms": 6}
NOTHING = (0,) * len(MEASURES)


def revised(tables):
    """{(node, window): {minute: {(gpu, holder): (measures, differences)}}} of published revisions."""
    out = {}
    for (node, gpu, holder, window, minute), (row, *_) in content(tables).items():
        if minute:
            values = tuple(row[name] or 0 for name in MEASURES), {d: row[d] for d in DIFFERENCES}
            out.setdefault((node, window), {}).setdefault(minute, {})[gpu, holder] = values
    return out


def check(log, tables, settings=SETTINGS) -> int:
    """Holds published revisions against the oracle's; how many there were."""
    expected, found = revisions_of(log, settings), revised(tables)
    seen = 0
    flags = {}
    for table in tables:
        for row in table.to_pylist():
            if row["charged_us"]:
                key = (row["node"], row["window_start_us"])
                flags.setdefault((*key, row["revision"]), set()).add("spool_gap" in row["flags"])
    for key, minutes in found.items():
        assert key in expected, f"{key} was revised without a late record"
        assert minutes.keys() <= {minute for minute, _, _ in expected[key]}
    for (node, window), states in expected.items():
        for minute, _, gap in states[1:]:
            assert flags.get((node, window, minute), {gap}) == {gap}
        for minute, gpus, before, after in changes(states):
            rows = found.get((node, window), {}).get(minute, {})
            assert gpus <= {gpu for gpu, _ in rows}, f"{node} {window} {minute}: no revision of {gpus}"
            shown = {gpu for gpu, _ in rows}
            wanted = {k[1:3] for k in before.keys() | after.keys() if k[1] in shown}
            assert wanted <= rows.keys()
            for (gpu, holder), (values, differences) in rows.items():
                new, old = (side.get((node, gpu, holder, window), NOTHING) for side in (after, before))
                if new is not NOTHING:
                    assert values == new
                else:
                    assert (values[0], *values[2:]) == (0,) * 7
                assert differences == {name: new[at] - old[at] for name, at in DIFFERENCES.items()}
            seen += bool(rows)
    return seen


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_revisions_are_the_oracles(seed: int) -> None:
    """Late readings, snapshots, pod events and gaps revise exactly the windows they touch, on the clock's minutes."""
    log = make_log(seed, reboots=seed % 2 == 1)
    check(log, run(log, random.Random(seed))[0])


@settings(max_examples=25, deadline=None)
@given(SEEDS, SEEDS)
def test_crash_changes_no_revision(seed: int, order: int) -> None:
    """After up to six crashes the same revisions are there, none is extra, and all copies are equal."""
    log = make_log(seed, reboots=seed % 2 == 1)
    expected = {key: copies[0] for key, copies in content(run(log)[0]).items()}
    copies = content(run(log, random.Random(order), crashes=6)[0])
    assert {key: seen[0] for key, seen in copies.items()} == expected
    assert all(row == expected[key] for key, seen in copies.items() for row in seen)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from([1, 3_000, 30_000]), st.integers(1, 5))
def test_passes_of_any_size_make_the_same_revisions(seed: int, kept_bytes: int, looks: int) -> None:
    """However little a pass keeps, plans or makes at once, and where a crash cuts it: the same rows are there."""
    log = make_log(seed, reboots=seed % 2 == 1)
    expected = content(run(log)[0])
    small = [(gathered, "KEPT_BYTES", kept_bytes), (repairs, "LOOKS_A_STEP", looks)]
    small += [(repair, "LOOKS_A_PLAN", 3 * looks), (repair, "LOOKS_AT_ONCE", 7 * looks)]
    with ExitStack() as stack:
        for module, name, value in small:
            stack.enter_context(patch.object(module, name, value))
        copies = content(run(log, random.Random(seed), crashes=6)[0])
    assert copies.keys() == expected.keys()
    assert all(row == expected[key][0] for key, seen in copies.items() for row in seen)


def test_control_there_are_revisions() -> None:
    """The workload makes what these tests are about."""
    assert sum(check(log, run(log)[0]) for log in map(make_log, range(6))) > 20


MINUTE = 60_000_000
CHANGED = replace(
    SETTINGS,
    changes=(
        Change(START // MINUTE * MINUTE + 2 * MINUTE, 30_000_000, 60_000_000),
        Change(START // MINUTE * MINUTE + 4 * MINUTE, 20_000_000, 150_000_000),
    ),
)
"""Windows that become shorter twice in mid-run; their lateness falls and rises."""


@settings(max_examples=15, deadline=None)
@given(SEEDS, SEEDS)
def test_rules_that_change_in_mid_run_are_the_oracles(seed: int, order: int) -> None:
    """With other windows from a time on, first results and revisions are the oracle's, through crashes too."""
    log = make_log(seed)
    tables, _ = run(log, random.Random(order), crashes=3, settings=CHANGED)
    assert measures(tables) == rows_of(log, CHANGED)
    check(log, tables, CHANGED)
    assert all(len({str(row) for row in copies}) == 1 for copies in content(tables).values())
