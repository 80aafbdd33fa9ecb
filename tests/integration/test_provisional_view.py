"""usage_provisional on the real engine: the newest set counts as a whole, until the window is in the ledger."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.audit.checksum import checksum
from infra.audit.scope import Scope
from schemas.live import LIVE_COLUMNS
from stream_jobs.ledger import Ledger
from tests.ledger_rows import insert, insert_live, ledger_in, live, pod, row

_OURS = ("usage_live", "usage_provisional")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    with ledger_in(tmp_path) as opened:
        yield opened


def _shown(ledger: Ledger) -> list[tuple[object, ...]]:
    return ledger.query("SELECT holder, charged_us FROM usage_provisional ORDER BY ALL")


def test_newest_set_counts_as_a_whole(ledger: Ledger) -> None:
    """A later set replaces an earlier one, also where a holder is gone from it; an older one that comes late not."""
    early = [live(row(0, holder="unattributed", charged_us=9), 10, 5), live(pod("a", charged_us=1), 10, 5)]
    later = [live(pod("a", charged_us=20), 20, 8)]
    insert_live(ledger, early, "early")
    assert _shown(ledger) == [("uid-a/main", 1), ("unattributed", 9)]
    insert_live(ledger, later, "later")
    assert _shown(ledger) == [("uid-a/main", 20)]
    insert_live(ledger, early, "late")
    insert_live(ledger, later, "again")
    assert _shown(ledger) == [("uid-a/main", 20)]
    assert ledger.query("SELECT count() > 1 FROM usage_live") == [(1,)], "there was nothing to choose from"


def test_rows_are_gone_once_the_window_is_in_the_ledger(ledger: Ledger) -> None:
    """A closed window hides its provisional rows and those of the node's windows before it; other nodes keep theirs."""
    rows = [live(pod("a", window, node=node, charged_us=1), 10) for window in range(3) for node in ("n1", "n2")]
    insert_live(ledger, rows, "t")
    insert(ledger, [row(1, gpu_uuid="GPU-9")])
    sql = "SELECT node, count() FROM usage_provisional GROUP BY node ORDER BY node"
    assert ledger.query(sql) == [("n1", 1), ("n2", 3)]
    insert(ledger, [row(5)], 1)
    assert ledger.query(sql) == [("n2", 3)]


def test_old_rows_are_not_shown_and_go(ledger: Ledger) -> None:
    """Rows that came more than ten minutes ago are shown no more, and leave the disk."""
    insert_live(ledger, [live(pod("a", charged_us=1), 10)], "new")
    names = ", ".join(column.name for column in LIVE_COLUMNS)
    old = names.replace("holder,", "'old',")
    ledger.command(
        f"INSERT INTO usage_live ({names}, received_at) SELECT {old}, now64(3) - INTERVAL 11 MINUTE FROM usage_live"
    )
    assert ledger.query("SELECT holder FROM usage_provisional") == [("uid-a/main",)]
    ledger.command("OPTIMIZE TABLE usage_live FINAL")
    assert ledger.query("SELECT holder FROM usage_live") == [("uid-a/main",)]


def test_provisional_figures_reach_nothing_that_is_billed(ledger: Ledger) -> None:
    """No other table, view or audit reads them: not by their text, and not by what they answer."""
    insert(ledger, [row(0)])
    views = [
        str(name)
        for (name,) in ledger.query(
            "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'"
        )
        if name not in _OURS
    ]
    assert len(views) >= 8
    before = {view: ledger.query(f"SELECT * FROM {view} ORDER BY ALL") for view in views}
    total = checksum(ledger, Scope())
    insert_live(ledger, [live(pod("a", window, charged_us=7, used_us=7), 10) for window in range(3)], "t")
    assert {view: ledger.query(f"SELECT * FROM {view} ORDER BY ALL") for view in views} == before
    assert checksum(ledger, Scope()) == total
    texts = ledger.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND name NOT IN {ours:Array(String)} "
        "AND match(create_table_query, 'usage_live|usage_provisional')",
        {"ours": list(_OURS)},
    )
    assert texts == []


def test_every_provisional_row_says_so(ledger: Ledger) -> None:
    """The view marks each row, and its figures reach to `as_of`, not to the window's end."""
    insert_live(ledger, [live(pod("a", charged_us=7), 10_000_000)], "t")
    sql = "SELECT provisional, as_of_us - window_start_us, lifetime_us, toUnixTimestamp64Micro(as_of) = as_of_us"
    assert ledger.query(f"{sql} FROM usage_provisional") == [(True, 10_000_000, 10_000_000, 1)]
