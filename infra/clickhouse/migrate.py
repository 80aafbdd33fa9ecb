"""Brings a ledger's tables to this version: numbered SQL files, forward only, each applied once and never changed.

Knows SQL files and a Ledger. Laws: an applied file whose text changed is refused by name; applying twice does nothing;
statements may be repeated, so a migration that broke off half-way is applied again as a whole
(tests/integration/test_migrations.py).
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stream_jobs.ledger import Ledger, LedgerError

MIGRATIONS = Path(__file__).parent / "migrations"
_FILE = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_APPLIED = """
CREATE TABLE IF NOT EXISTS schema_migrations
(version UInt32, name String, checksum String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC'))
ENGINE = ReplacingMergeTree ORDER BY version
"""
_UNKNOWN_TABLE = 60


class MigrationError(Exception):
    """The migrations cannot be applied to this ledger; names the file and what to do."""


class Migration(NamedTuple):
    """A file of SQL statements; the checksum is that of its bytes."""

    version: int
    name: str
    checksum: str
    statements: tuple[str, ...]


class State(NamedTuple):
    """A migration and whether the ledger has it."""

    version: int
    name: str
    applied: bool


def load(folder: Path = MIGRATIONS) -> list[Migration]:
    """The migrations of a folder in order; MigrationError where a name is wrong or a number is missing or doubled."""
    found = []
    for path in sorted(folder.glob("*.sql")):
        match = _FILE.fullmatch(path.name)
        if not match:
            raise MigrationError(f"{path.name} is not named NNNN_words.sql")
        text = path.read_text()
        checksum = hashlib.sha256(text.encode()).hexdigest()
        found.append(Migration(int(match[1]), path.name, checksum, tuple(statements(text))))
    versions = [migration.version for migration in found]
    if versions != list(range(1, len(found) + 1)):
        raise MigrationError(f"migrations in {folder} are numbered {versions}, expected 1 to {len(found)} without gaps")
    return found


def statements(text: str) -> list[str]:
    """The statements of a file: comment lines dropped, parted by a semicolon at a line's end."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.strip() for part in re.split(r";\s*$", "\n".join(lines), flags=re.MULTILINE) if part.strip()]


def status(ledger: Ledger, migrations: Sequence[Migration]) -> list[State]:
    """What the ledger has and what it lacks; MigrationError where it has something else. Changes nothing."""
    applied = _applied(ledger)
    known = {migration.version: migration for migration in migrations}
    for version, (name, checksum) in sorted(applied.items()):
        if version not in known:
            raise MigrationError(
                f"{ledger.place} has migration {name}, which this version of gpumeter does not know: it is older "
                "than the ledger. Nothing was changed; use the newer gpumeter"
            )
        if known[version].checksum != checksum:
            raise MigrationError(
                f"migration {known[version].name} was changed after it was applied to {ledger.place} (checksum there "
                f"{checksum[:12]}, here {known[version].checksum[:12]}). Nothing was changed; restore the file and "
                "put the change into a new migration"
            )
    return [State(m.version, m.name, m.version in applied) for m in migrations]


def apply(ledger: Ledger, migrations: Sequence[Migration]) -> list[State]:
    """Applies what is missing, in order, and tells what it applied."""
    ledger.command(_APPLIED)
    missing = {state.version for state in status(ledger, migrations) if not state.applied}
    done = []
    for migration in migrations:
        if migration.version not in missing:
            continue
        for statement in migration.statements:
            _run(ledger, migration, statement)
        ledger.command(
            f"INSERT INTO schema_migrations (version, name, checksum) "
            f"VALUES ({migration.version}, '{migration.name}', '{migration.checksum}')"
        )
        done.append(State(migration.version, migration.name, applied=True))
    return done


def _run(ledger: Ledger, migration: Migration, statement: str) -> None:
    try:
        ledger.command(statement)
    except LedgerError as error:
        first = statement.splitlines()[0][:80]
        raise MigrationError(f"migration {migration.name} failed at {first!r}: {error}") from error


def _applied(ledger: Ledger) -> dict[int, tuple[str, str]]:
    try:
        rows = ledger.query("SELECT version, name, checksum FROM schema_migrations FINAL")
    except LedgerError as error:
        if error.code == _UNKNOWN_TABLE:
            return {}
        raise
    return {int(version): (str(name), str(checksum)) for version, name, checksum in rows}
