"""`gpumeter audit` on the real engine: what its checksum sees and does not see, and each broken law found."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.audit.checksum import Checksum, checksum
from infra.audit.laws import laws
from infra.audit.scope import Scope
from schemas.usage import ALL_COLUMNS, INGEST_COLUMNS, USAGE_COLUMNS
from tests.ledger_rows import START_US, WINDOW_US, insert, ledger_in, pod, row

ROWS = [
    pod("a", 0, charged_us=20_000_000, used_us=7, flags=["it's", "x\ty"], gpu_uuid="GPU-2"),
    row(0, charged_us=40_000_000, gpu_uuid="GPU-2"),
    row(1),
    row(1, cluster="c2"),
]
_OTHER: dict[str, Any] = {"utf8": "other", "int32": 2, "int64": 123_456, "list<utf8>": ["other"]}


def _sum(directory: Path, rows: list[dict[str, Any]]) -> Checksum:
    with ledger_in(directory) as ledger:
        insert(ledger, rows)
        return checksum(ledger, Scope())


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "infra.cli.main", "audit", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def _cell(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, list):
        return "[" + ",".join("'" + _cell(each).replace("'", "\\'") + "'" for each in value) + "]"
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def test_checksum_is_what_it_is_said_to_be(tmp_path: Path) -> None:
    """Computed anew without ClickHouse, from the definition and the rows alone, the checksum is the same."""
    texts = ["\t".join(_cell(each[column.name]) for column in USAGE_COLUMNS) for each in ROWS]
    numbers = [int.from_bytes(hashlib.sha256(text.encode()).digest(), "little") for text in texts]
    assert _sum(tmp_path, ROWS) == (f"{sum(numbers) % 2**256:064x}", len(ROWS))


def test_checksum_sees_each_column_of_the_content(tmp_path: Path) -> None:
    """One row changed in one content column, whichever, changes the checksum; an ingest column changes nothing."""
    ingest = {column.name for column in INGEST_COLUMNS}
    given = {"window_end_us": START_US + 1, "weight_slices": 1, "weight_total": 2, "holder_kind": "host"}
    seen = {}
    with ledger_in(tmp_path) as ledger:
        insert(ledger, ROWS)
        before = checksum(ledger, Scope())
        for number, column in enumerate(ALL_COLUMNS):
            changed = dict(ROWS[0]) | {column.name: given.get(column.name, _OTHER[column.type])}
            if column.name == "window_start_us":
                changed[column.name] = START_US - WINDOW_US
            if column.name == "weight_slices":
                changed["weight_total"] = 2
            ledger.command("TRUNCATE TABLE usage_ledger")
            insert(ledger, [changed, *ROWS[1:]], token=f"{number}")
            seen[column.name] = checksum(ledger, Scope()) != before
    assert seen == {column.name: column.name not in ingest for column in ALL_COLUMNS}


def test_checksum_knows_no_order_copies_or_place(tmp_path: Path) -> None:
    """Rows in another order, in other blocks, at other offsets and with copies of each give the same checksum."""
    once = _sum(tmp_path / "once", ROWS)
    with ledger_in(tmp_path / "often") as ledger:
        for offset, rows in enumerate([ROWS[2:], ROWS[:2][::-1], ROWS, ROWS], 5):
            insert(ledger, rows, offset)
        assert checksum(ledger, Scope()) == once
        assert ledger.query("SELECT count() > 4 FROM usage_ledger") == [(1,)], "no copies were there to be passed over"


def test_checksum_takes_the_first_of_copies_that_differ(tmp_path: Path) -> None:
    """Of copies that differ the first published one counts, as in every view."""
    once = _sum(tmp_path / "once", ROWS)
    with ledger_in(tmp_path / "again") as ledger:
        insert(ledger, [dict(ROWS[0]) | {"used_us": 8, "d_used_us": 8}], 9)
        insert(ledger, ROWS, 3)
        assert checksum(ledger, Scope()) == once


def test_checksum_of_parts(tmp_path: Path) -> None:
    """A cluster and a period take exactly their rows; sums of disjoint parts add up to the whole; none is 0."""
    with ledger_in(tmp_path) as ledger:
        insert(ledger, ROWS)
        whole = checksum(ledger, Scope())
        second = START_US + WINDOW_US
        scopes = [Scope(to_us=second), Scope("c1", from_us=second), Scope("c2")]
        parts = [checksum(ledger, scope) for scope in scopes]
        assert [part.rows for part in parts] == [2, 1, 1]
        assert f"{sum(int(part.hex, 16) for part in parts) % 2**256:064x}" == whole.hex
        assert checksum(ledger, Scope("nowhere")) == ("0" * 64, 0)


@pytest.mark.parametrize(
    ("rows", "law"),
    [
        ([row(0, charged_us=WINDOW_US - 1)], "charged adds up to lifetime"),
        ([row(0), row(0, revision=60, d_charged_us=1)], "differences add up to the figure"),
        ([row(0, d_charged_us=WINDOW_US + 1)], "differences add up to the figure"),
    ],
)
def test_laws_find_what_is_broken(tmp_path: Path, rows: list[dict[str, Any]], law: str) -> None:
    """A microsecond too few, and a revision whose differences do not add up, are found by name and place."""
    with ledger_in(tmp_path) as ledger:
        insert(ledger, [row(5), *rows])
        found = laws(ledger, Scope())
        assert law in {each.law for each in found.broken}
        assert {each.first["window_start_us"] for each in found.broken} == {START_US}
        assert laws(ledger, Scope(from_us=START_US + 1)).broken == []


def test_audit_tells_laws_by_exit_code(tmp_path: Path) -> None:
    """0 and the size while no law is broken; 1 and the copies' place once two copies of a row differ."""
    place = ("--directory", str(tmp_path))
    with ledger_in(tmp_path) as ledger:
        insert(ledger, [row(0), row(1), row(1, revision=60, d_charged_us=0)])
    good = _run(*place)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout == "3 rows (1 of revisions), 2 windows of 1 GPUs: no law is broken\n"
    with ledger_in(tmp_path) as ledger:
        ledger.command("SYSTEM STOP MERGES usage_ledger")
        insert(ledger, [row(1, energy_mj=5)], 7)
    bad = _run(*place)
    assert bad.returncode == 1
    assert "copies of a row are equal: 1 times, first at c1/n1 GPU-1 unallocated 2026-09-21 14:15:00 UTC" in bad.stdout
    (broken,) = json.loads(_run("--json", *place).stdout)["broken"]
    assert (broken["law"], broken["first"]["window_start_us"]) == ("copies of a row are equal", START_US + WINDOW_US)
    assert _run("--to", "2026-09-21T14:15", *place).returncode == 0


def test_audit_prints_the_checksum_alone(tmp_path: Path) -> None:
    """stdout is the checksum, for scripts to compare; a part is asked for by cluster and time; no ledger is exit 3."""
    wanted = _sum(tmp_path, ROWS)
    place = ("--directory", str(tmp_path))
    done = _run("--checksum", *place)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{wanted.hex}\n", "4 rows\n")
    part = json.loads(_run("--checksum", "--json", "--cluster", "c1", "--from", "2026-09-21T14:15", *place).stdout)
    assert (part["rows"], part["checksum"] != wanted.hex) == (1, True)
    assert _run("--checksum", "--directory", str(tmp_path / "none")).returncode == 3
