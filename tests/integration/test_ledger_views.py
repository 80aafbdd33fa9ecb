"""Each view of the ledger on the real engine: hand-made rows, answers computed by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_jobs.ledger import Ledger
from tests.ledger_rows import START_US, WINDOW_US, insert, ledger_in, pod, row

S, W = 1_000_000, WINDOW_US
_OVERFULL = [row(charged_us=W - 5), pod("a", charged_us=5, used_us=3, hot_idle_us=3)]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with ledger_in(tmp_path) as opened:
        yield opened


def _one(ledger: Ledger, sql: str) -> dict[str, Any]:
    names, rows = ledger.table(sql)
    assert len(rows) == 1, rows
    return dict(zip(names, rows[0], strict=True))


def test_describe_explains_each_column(ledger: Ledger) -> None:
    """Each column of the views that people ask has a comment."""
    for view in ("current", "by_pod_window", "by_pod_hour", "by_namespace_day", "by_gpu"):
        assert [name for name, _, _, _, comment, *_ in ledger.query(f"DESCRIBE usage_{view}") if not comment] == []
    assert all(row[4] for row in ledger.query("DESCRIBE requested_held_used"))


def _laws(ledger: Ledger) -> list[str]:
    return sorted({law for (law,) in ledger.query("SELECT law FROM conservation_violations")})


def _shared_gpu() -> list[dict[str, Any]]:
    """One GPU, one window: a pod that used 20 of 30 held s, an idle notebook with memory, an empty holder, the rest."""
    return [
        pod("train", requested_us=30 * S, held_us=30 * S, used_us=20 * S, used_variance_us2=9 * S * S,
            charged_us=24 * S, hot_idle_us=4 * S, resident_us=60 * S, memory_byte_ms=2**62, energy_mj=7),
        pod("notebook", requested_us=15 * S, held_us=15 * S, used_us=0, used_variance_us2=16 * S * S, charged_us=10 * S,
            hot_idle_us=10 * S, memory_byte_ms=2**62, energy_mj=3),
        pod("empty", requested_us=15 * S, held_us=15 * S, used_us=0, used_variance_us2=0, charged_us=6 * S,
            hot_idle_us=0, memory_byte_ms=0, energy_mj=1),
        row(holder="host", holder_kind="host", charged_us=2 * S, used_us=2 * S),
        row(holder="unattributed", holder_kind="unattributed", charged_us=3 * S),
        row(charged_us=5 * S, energy_mj=2),
        row(holder="unobserved", holder_kind="unobserved", charged_us=10 * S),
    ]  # fmt: skip


def _observed(rows: list[dict[str, Any]], observed_us: int) -> list[dict[str, Any]]:
    return [each | {"observed_us": observed_us} for each in rows]


def test_usage_by_gpu_splits_time_by_kind(ledger: Ledger) -> None:
    """used, hot idle, held empty, unallocated, host, unattributed and unobserved add up to the lifetime."""
    insert(ledger, _observed(_shared_gpu(), 50 * S))
    got = _one(ledger, "SELECT * FROM usage_by_gpu")
    parts = ("used_us", "hot_idle_us", "held_empty_us", "unallocated_us", "host_us", "unattributed_us", "unobserved_us")
    assert [got[name] for name in parts] == [20 * S, 14 * S, 6 * S, 5 * S, 2 * S, 3 * S, 10 * S]
    assert got["idle_kind_unknown_us"] == got["use_unknown_us"] == 0
    assert sum(got[name] for name in parts) == got["lifetime_us"] == WINDOW_US
    assert (got["pods"], got["observed_us"], got["energy_mj"], got["memory_byte_ms"]) == (3, 50 * S, 13, 2**63)
    assert got["window_start"].isoformat().startswith("2026-09-21T14:14:00")
    assert _laws(ledger) == []


def test_usage_by_gpu_keeps_what_is_unknown_apart(ledger: Ledger) -> None:
    """Time of a pod whose use, or whose residency, is not known is neither used nor idle of a kind."""
    insert(
        ledger,
        [
            pod("blind", charged_us=40 * S, basis="equal_split"),
            pod("dark", used_us=5 * S, charged_us=20 * S),
        ],
    )
    got = _one(ledger, "SELECT * FROM usage_by_gpu")
    assert (got["use_unknown_us"], got["idle_kind_unknown_us"], got["used_us"]) == (40 * S, 15 * S, 5 * S)
    assert got["held_empty_us"] == got["hot_idle_us"] == 0


def test_usage_by_pod_window_sums_gpus_and_adds_variances(ledger: Ledger) -> None:
    """A pod on two GPUs: sums over both, standard deviation from the sum of variances, memory beyond 64 bits."""
    insert(
        ledger,
        [
            pod("train", held_us=60 * S, used_us=30 * S, used_variance_us2=9 * S * S, memory_byte_ms=2**62,
                flags=["b"]),
            pod("train", gpu_uuid="GPU-2", held_us=60 * S, used_us=10 * S, used_variance_us2=16 * S * S,
                memory_byte_ms=3 * 2**61, flags=["a"], basis="equal_split"),
        ],
    )  # fmt: skip
    got = _one(ledger, "SELECT * FROM usage_by_pod_window")
    assert (got["gpus"], got["held_us"], got["used_us"], got["charged_us"]) == (2, 120 * S, 40 * S, 120 * S)
    assert got["used_plus_minus_us"] == 5 * S
    assert got["memory_byte_ms"] == 2**62 + 3 * 2**61
    assert (got["flags"], got["basis"]) == (["a", "b"], "equal_split")
    assert (got["used_coverage"], got["window_start_us"]) == (1.0, START_US)


def test_usage_by_pod_hour_keeps_null_null(ledger: Ledger) -> None:
    """Unknown in every window is null; unknown in one of two is the other's, with a coverage of half."""
    insert(
        ledger,
        [
            pod("half", 0, used_us=30 * S, held_us=None),
            pod("half", 1, used_us=None, held_us=None, basis="allocation"),
        ],
    )
    got = _one(ledger, "SELECT * FROM usage_by_pod_hour")
    assert (got["held_us"], got["held_coverage"], got["energy_mj"], got["requested_us"]) == (None, 0.0, None, None)
    assert (got["used_us"], got["used_coverage"], got["basis"]) == (30 * S, 0.5, "allocation")
    assert got["used_variance_us2"] is None
    assert got["used_plus_minus_us"] is None
    assert got["hour"].isoformat().startswith("2026-09-21T14:00:00")


def test_usage_by_namespace_day_counts_pods_and_days(ledger: Ledger) -> None:
    """Two pods of one namespace on one day are one row; the next day is another."""
    insert(ledger, [pod("a", used_us=1), pod("b", gpu_uuid="GPU-2", used_us=2), pod("a", 24 * 60, used_us=4)])
    rows = ledger.query("SELECT toString(day), namespace, pods, gpus, used_us FROM usage_by_namespace_day ORDER BY day")
    assert rows == [("2026-09-21", "team", 2, 2, 3), ("2026-09-22", "team", 1, 1, 4)]


def test_requested_held_used_is_in_seconds_with_ratios(ledger: Ledger) -> None:
    """Seconds side by side; a ratio counts only windows whose two sides are known, and nothing over 0 is null."""
    insert(
        ledger,
        [
            pod("a", 0, requested_us=60 * S, held_us=60 * S, used_us=30 * S, used_variance_us2=9 * S * S),
            pod("a", 1, requested_us=60 * S, held_us=None, used_us=15 * S, used_variance_us2=16 * S * S),
            pod("b", 0, gpu_uuid="GPU-2", requested_us=0, held_us=0, used_us=6 * S, charged_us=6 * S,
                flags=["unrequested"]),
        ],
    )  # fmt: skip
    names = "requested_s, held_s, used_s, used_plus_minus_s, charged_s, used_per_held, used_per_requested, flags"
    a, b = ledger.query(f"SELECT {names} FROM requested_held_used ORDER BY pod_name")
    assert a == (120.0, 60.0, 45.0, 5.0, 120.0, 0.5, 0.375, [])
    assert b == (0.0, 0.0, 6.0, None, 6.0, None, None, ["unrequested"])


def test_usage_current_is_the_newest_revision(ledger: Ledger) -> None:
    """The newest revision's values count, also a null where an older one had a figure; other keys are untouched."""
    insert(ledger, [pod("a", used_us=7, charged_us=9), pod("b", used_us=5)], offset=1)
    insert(ledger, [pod("a", revision=START_US, used_us=8, d_used_us=1, charged_us=9, d_charged_us=0)], offset=2)
    insert(ledger, [pod("a", revision=2 * START_US, d_used_us=-8, charged_us=9, d_charged_us=0)], offset=3)
    rows = ledger.query("SELECT pod_name, revision, used_us, charged_us FROM usage_current ORDER BY pod_name")
    assert rows == [("a", 2 * START_US, None, 9), ("b", 0, 5, WINDOW_US)]


def test_ledger_keeps_the_first_copy(ledger: Ledger) -> None:
    """Of copies of a key the one with the lowest offset stays, in whatever order they were inserted."""
    for offset in (5, 3, 9):
        insert(ledger, [pod("a", src_partition=offset)], offset)
    assert ledger.query("SELECT src_partition, out_offset FROM usage_ledger FINAL") == [(3, 3)]
    ledger.command("OPTIMIZE TABLE usage_ledger FINAL")
    assert ledger.query("SELECT src_partition, out_offset FROM usage_ledger") == [(3, 3)]


def test_differing_copies_shows_content_not_origin(ledger: Ledger) -> None:
    """Copies that differ in a figure, also null against 0, are shown; those that differ in ingest columns are not."""
    ledger.command("SYSTEM STOP MERGES usage_ledger")
    insert(ledger, [pod("same"), pod("other", energy_mj=None), row()], offset=1)
    insert(ledger, [pod("same", src_partition=1), pod("other", energy_mj=0)], offset=2)
    got = ledger.query("SELECT holder, copies, arrayMap(x -> x.3, origins) FROM differing_copies")
    assert [(holder, copies, sorted(origins)) for holder, copies, origins in got] == [("uid-other/main", 2, [1, 2])]


@pytest.mark.parametrize(
    ("rows", "law"),
    [
        ([row(charged_us=WINDOW_US - 1)], "charged adds up to lifetime"),
        ([row(), pod("a", charged_us=1)], "charged adds up to lifetime"),
        ([row(observed_us=WINDOW_US - 1)], "observed plus unobserved is lifetime"),
        ([row(lifetime_us=W + 1, observed_us=W + 1, charged_us=W + 1)], "lifetime is within the window"),
        ([row(charged_us=1), pod("a", charged_us=W - 1, lifetime_us=W - 1)], "rows of a window agree on its lifetime"),
        ([row(), pod("a", charged_us=0, used_us=-1)], "no time is negative"),
        ([row(charged_us=WINDOW_US - 5), pod("a", charged_us=5, used_us=6)], "used and hot idle are within charged"),
        (_OVERFULL, "used and hot idle are within charged"),
        ([row(d_charged_us=1)], "differences add up to the figure"),
        ([row(), row(revision=START_US, charged_us=WINDOW_US, d_charged_us=1)], "differences add up to the figure"),
        ([row(), row(window_start_us=START_US + 1, window_end_us=START_US + 1 + WINDOW_US)], "windows do not overlap"),
        ([row(), row(holder="violation:x", holder_kind="violation", flags=["x"])], "the meter reports: x"),
    ],
)  # fmt: skip
def test_conservation_violations_shows_each_broken_law(ledger: Ledger, rows: list[dict[str, Any]], law: str) -> None:
    """A ledger that keeps the laws has no violation; one microsecond off shows which law, where."""
    insert(ledger, [pod("good", gpu_uuid="GPU-0"), pod("good", 1, gpu_uuid="GPU-0")], offset=1)
    assert _laws(ledger) == []
    insert(ledger, rows, offset=2)
    assert law in _laws(ledger)
    assert ledger.query("SELECT DISTINCT gpu_uuid FROM conservation_violations") == [("GPU-1",)]


def _mig(uuid: str, slices: int, us: int, **given: Any) -> dict[str, Any]:
    """A row of an instance of so many slices of GPU-1's 7, or of its free slices, that was there for a time."""
    times = dict.fromkeys(("charged_us", "observed_us", "memory_observed_us", "energy_observed_us", "lifetime_us"), us)
    sizes = {"weight_slices": slices, "weight_total": 7, "parent_uuid": "GPU-1"}
    return row(gpu_uuid=uuid, **times | sizes | {"d_charged_us": us} | given)


@pytest.mark.parametrize("off_us", [0, 1])
def test_slices_of_a_gpu_add_up_to_it(ledger: Ledger, off_us: int) -> None:
    """A GPU that is whole, then in instances and free slices, counts once; a microsecond of a slice off is shown."""
    whole = _mig("GPU-1", 1, 20 * S, weight_total=1)
    parts = [_mig("MIG-1", 3, 40 * S), _mig("MIG-2", 2, 30 * S), _mig("GPU-1/free", 1, 100 * S + off_us)]
    insert(ledger, [whole, *parts, row(gpu_uuid="GPU-2")], offset=1)
    assert _laws(ledger) == (["instances and free slices add up to their GPU"] if off_us else [])
    shown = ledger.query("SELECT gpu_uuid, expected, found FROM conservation_violations")
    assert shown == ([("GPU-1", 420 * S, 420 * S + 1)] if off_us else [])


def test_views_count_instances_by_their_slices(ledger: Ledger) -> None:
    """A pod's time on an instance is time of that device, and as GPU-seconds the instance's part of a GPU."""
    held = {"held_us": 60 * S, "d_held_us": 60 * S, "used_us": None, "weight_slices": 2, "weight_total": 7}
    insert(ledger, [pod("a", gpu_uuid="MIG-1", parent_uuid="GPU-1", charged_us=60 * S, **held)], offset=1)
    for view in ("usage_by_pod_window", "usage_by_pod_hour", "usage_by_namespace_day"):
        columns = "held_us, charged_us, held_gpu_s, used_gpu_s, charged_gpu_s"
        ((held_us, charged_us, *gpu_s),) = ledger.query(f"SELECT {columns} FROM {view}")
        assert (held_us, charged_us) == (60 * S, 60 * S)
        assert gpu_s == [pytest.approx(120 / 7), None, pytest.approx(120 / 7)]
    assert ledger.query("SELECT held_s, charged_s FROM requested_held_used") == [(pytest.approx(120 / 7),) * 2]


def test_conservation_violations_accepts_a_revision_that_adds_up(ledger: Ledger) -> None:
    """A revision that moves time between holders, with signed differences and a vanished holder, breaks no law."""
    insert(ledger, [pod("a", charged_us=40 * S, used_us=40 * S), row(charged_us=20 * S)], offset=1)
    insert(
        ledger,
        [
            pod("a", revision=START_US, charged_us=0, used_us=0, d_charged_us=-40 * S, d_used_us=-40 * S),
            pod("b", revision=START_US, charged_us=40 * S, used_us=None, d_charged_us=40 * S),
            row(revision=START_US, charged_us=20 * S, d_charged_us=0),
        ],
        offset=2,
    )
    assert _laws(ledger) == []
    assert ledger.query("SELECT pod_name, charged_us FROM usage_current WHERE pod_name != '' ORDER BY 1") == [
        ("a", 0),
        ("b", 40 * S),
    ]


@pytest.mark.parametrize(
    "bad",
    [
        {"window_start_us": 0, "window_end_us": WINDOW_US},
        {"window_end_us": START_US},
        {"gpu_uuid": ""},
        {"weight_slices": 0},
        {"revision": -1},
    ],
)
def test_ledger_refuses_what_cannot_be_a_row(ledger: Ledger, bad: dict[str, Any]) -> None:
    """A row without a time, a length, a key or a weight is refused by the table itself (code 469)."""
    from stream_jobs.ledger import LedgerError

    with pytest.raises(LedgerError) as refused:
        insert(ledger, [row(**bad)])
    assert refused.value.code == 469
    assert ledger.query("SELECT count() FROM usage_ledger") == [(0,)]
