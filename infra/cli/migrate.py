"""`gpumeter migrate`: brings a ledger's tables to this version. Shell of infra/clickhouse/migrate.py.

Tested in tests/integration/test_cli_ledger.py.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from infra.cli.options import DEFAULT_LEDGER, LedgerUrl


def migrate(
    url: LedgerUrl = None,
    directory: Annotated[
        Path, typer.Option(envvar="GPUMETER_LEDGER_DIRECTORY", help="Directory of the embedded ledger; made if absent.")
    ] = DEFAULT_LEDGER,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what is applied and what would be.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Apply the numbered SQL files that a ledger lacks; each once, in order, never back.

    A file that was changed after it was applied is refused by name (exit code 2). The sink of an embedded ledger does
    this at its start.

    Example: gpumeter migrate --url http://gpumeter@clickhouse:8123/gpumeter --dry-run
    """
    from infra.clickhouse.migrate import MigrationError, apply, load, status
    from stream_jobs.ledger import LedgerError, NoLedger, open_ledger

    try:
        ledger = open_ledger(url=url, directory=directory, create=not dry_run)
        try:
            done = [] if dry_run else [state.name for state in apply(ledger, load())]
            states = status(ledger, load())
        finally:
            ledger.close()
    except (MigrationError, LedgerError, ValueError) as error:
        typer.echo(f"gpumeter migrate: {error}", err=True)
        raise typer.Exit(3 if isinstance(error, NoLedger) else 2) from error
    if as_json:
        rows = [{"version": s.version, "name": s.name, "applied": s.applied, "now": s.name in done} for s in states]
        typer.echo(json.dumps(rows))
        return
    for state in states:
        word = "applied now" if state.name in done else "applied" if state.applied else "would be applied"
        typer.echo(f"{state.name}: {word}")
