"""Migrations on the real engine: once each, in order, and never quietly changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.clickhouse.migrate import MigrationError, apply, load, statements, status
from stream_jobs.ledger import Ledger, open_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A database without tables."""
    opened = open_ledger(directory=tmp_path / "ledger", create=True)
    yield opened
    opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two migrations."""
    path = tmp_path / "migrations"
    path.mkdir()
    (path / "0001_first.sql").write_text("-- a; b;\nCREATE TABLE IF NOT EXISTS a (x Int8) ENGINE = Memory;\n")
    (path / "0002_second.sql").write_text("CREATE OR REPLACE VIEW v AS SELECT ';' AS s, x FROM a;\n")
    return path


def test_apply_twice_does_nothing_twice(ledger: Ledger, folder: Path) -> None:
    """What is applied is applied once, and known."""
    assert [state.applied for state in status(ledger, load(folder))] == [False, False]
    assert [state.name for state in apply(ledger, load(folder))] == ["0001_first.sql", "0002_second.sql"]
    assert apply(ledger, load(folder)) == []
    assert [state.applied for state in status(ledger, load(folder))] == [True, True]


def test_changed_migration_is_refused_by_name(ledger: Ledger, folder: Path) -> None:
    """A file that was changed after it was applied stops everything; a later one is not applied either."""
    apply(ledger, load(folder))
    (folder / "0001_first.sql").write_text("CREATE TABLE a (x Int16) ENGINE = Memory;\n")
    (folder / "0003_third.sql").write_text("CREATE TABLE c (x Int8) ENGINE = Memory;\n")
    with pytest.raises(MigrationError, match=r"0001_first\.sql was changed"):
        apply(ledger, load(folder))
    assert ledger.query("SELECT count() FROM system.tables WHERE database = 'gpumeter' AND name = 'c'") == [(0,)]


def test_ledger_newer_than_the_program_is_refused(ledger: Ledger, folder: Path) -> None:
    """A ledger with a migration that this program does not have is not touched."""
    apply(ledger, load(folder))
    (folder / "0002_second.sql").unlink()
    with pytest.raises(MigrationError, match=r"0002_second\.sql, which this version"):
        apply(ledger, load(folder))


def test_broken_migration_is_named_and_repeated_as_a_whole(ledger: Ledger, folder: Path) -> None:
    """A statement that fails names file and words; once mended, the file runs from its start."""
    good = "CREATE TABLE IF NOT EXISTS d (x Int8) ENGINE = Memory;\n"
    (folder / "0003_third.sql").write_text(f"{good}CREATE TABLE e (x Nonsense) ENGINE = Memory;\n")
    with pytest.raises(MigrationError, match=r"0003_third\.sql failed at 'CREATE TABLE e"):
        apply(ledger, load(folder))
    (folder / "0003_third.sql").write_text(f"{good}CREATE TABLE e (x Int8) ENGINE = Memory;\n")
    assert [state.name for state in apply(ledger, load(folder))] == ["0003_third.sql"]


@pytest.mark.parametrize("name", ["0004_gap.sql", "3_short.sql", "0002_twice.sql"])
def test_wrong_numbering_is_refused(folder: Path, name: str) -> None:
    """A gap, a doubled number and a wrong name are told before anything runs."""
    (folder / name).write_text("SELECT 1;\n")
    with pytest.raises(MigrationError):
        load(folder)


def test_statements_are_parted_at_line_ends() -> None:
    """A semicolon within a line or a comment parts nothing."""
    assert statements("-- x;\nSELECT ';' AS a;\n\n  -- y\nSELECT\n  2;\n") == ["SELECT ';' AS a", "SELECT\n  2"]


def test_shipped_statements_may_be_repeated(ledger: Ledger) -> None:
    """Every statement of the shipped migrations can be run again, so one that broke off half-way can be finished."""
    apply(ledger, load())
    for migration in load():
        for statement in migration.statements:
            ledger.command(statement)
