"""What the real meter publishes goes through the sink's decoder into the real engine, and breaks no law there."""

from pathlib import Path

import pytest

from schemas.usage import USAGE_COLUMNS
from stream_jobs.ledger import Ledger
from stream_jobs.sink import TABLE
from stream_jobs.usage_messages import usage_messages
from stream_jobs.usage_rows import UsageMessage, decode_usage, together
from tests.ledger_rows import ledger_in
from tests.property.drive import content, run
from tests.property.workload import make_log

CONTENT = [column.name for column in USAGE_COLUMNS]


def _fill(ledger: Ledger, seed: int) -> list[dict[str, object]]:
    """Publishes a random log's windows into the ledger; gives the distinct rows."""
    tables, _ = run(make_log(seed))
    sent = [message for table in tables for message in usage_messages(table, 0)]
    messages = [UsageMessage(m.topic, 0, n, 0, m.headers, m.payload or b"") for n, m in enumerate(sent)]
    ledger.insert_arrow(TABLE, together([decode_usage(message) for message in messages]), f"seed-{seed}")
    return [copies[0] for copies in content(tables).values()]


def _sorted(rows: list[dict[str, object]]) -> list[str]:
    return sorted(repr([row[name] for name in CONTENT]) for row in rows)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ledger_holds_what_the_meter_published(tmp_path: Path, seed: int) -> None:
    """Row for row, column for column the ledger has the meter's rows, and conservation_violations is empty."""
    with ledger_in(tmp_path) as ledger:
        expected = _fill(ledger, seed)
        names, rows = ledger.table(f"SELECT {', '.join(CONTENT)} FROM usage_ledger FINAL")
        got = [dict(zip(names, row, strict=True)) for row in rows]
        violations = ledger.query("SELECT * FROM conservation_violations LIMIT 5")
        parts = ledger.query(
            "SELECT count() FROM usage_by_gpu WHERE lifetime_us != used_us + hot_idle_us + held_empty_us + "
            "idle_kind_unknown_us + use_unknown_us + unallocated_us + host_us + unattributed_us + unobserved_us"
        )
    assert len(expected) > 20
    assert _sorted(got) == _sorted(expected)
    assert violations == []
    assert parts == [(0,)]
