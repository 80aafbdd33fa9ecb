"""`gpumeter audit`: the checksum of a ledger, or the state of its laws. Shell of infra/audit; owns what is printed.

Tested in tests/integration/test_audit.py.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from infra.cli.options import DEFAULT_LEDGER, LedgerDirectory, LedgerUrl

if TYPE_CHECKING:
    from infra.audit.laws import Laws
    from infra.audit.scope import Scope
    from stream_jobs.ledger import Ledger

_FORMS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
From = Annotated[datetime | None, typer.Option("--from", formats=_FORMS, help="Windows that start at or after (UTC).")]
To = Annotated[datetime | None, typer.Option("--to", formats=_FORMS, help="Windows that start before (UTC).")]
Cluster = Annotated[str, typer.Option(help="Only this cluster.")]


def audit(
    as_checksum: Annotated[bool, typer.Option("--checksum", help="Print the checksum of the content.")] = False,
    cluster: Cluster = "",
    begin: From = None,
    end: To = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    url: LedgerUrl = None,
    directory: LedgerDirectory = DEFAULT_LEDGER,
) -> None:
    """Check the ledger's laws, or print the checksum of its content.

    The laws: each GPU's time adds up in each window, revisions add up to the figure they end at, copies of a row are
    equal. Exit code 1 where one is broken; each is shown with its first place.

    --checksum: 64 hex digits over the rows' content, whatever their order, copies, place in Kafka and time of insert.
    Two ledgers of the same log have the same, also where messages came twice or the log was replayed.

    Example: gpumeter audit --checksum --from 2026-01-01 --to 2026-02-01
    """
    from infra.audit.scope import Scope
    from infra.front.place import open_to_read
    from stream_jobs.ledger import LedgerError

    period = {name: _us(time) for name, time in (("from_us", begin), ("to_us", end)) if time is not None}
    scope = Scope(cluster, **period)
    try:
        ledger = open_to_read(url, directory)
    except (LedgerError, ValueError) as error:
        typer.echo(f"gpumeter audit: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ValueError) else 3) from error
    try:
        if as_checksum:
            _print_checksum(ledger, scope, as_json)
        else:
            _print_laws(ledger, scope, as_json)
    except LedgerError as error:
        typer.echo(f"gpumeter audit: {ledger.place}: {error}; is it of this version (`gpumeter migrate`)?", err=True)
        raise typer.Exit(3) from error
    finally:
        ledger.close()


def _us(time: datetime) -> int:
    return int(time.replace(tzinfo=UTC).timestamp()) * 1_000_000


def _print_checksum(ledger: "Ledger", scope: "Scope", as_json: bool) -> None:
    from infra.audit.checksum import checksum

    found = checksum(ledger, scope)
    if as_json:
        typer.echo(json.dumps({"checksum": found.hex, "rows": found.rows}))
    else:
        typer.echo(found.hex)
        typer.echo(f"{found.rows} rows", err=True)


def _print_laws(ledger: "Ledger", scope: "Scope", as_json: bool) -> None:
    from infra.audit.laws import laws

    found = laws(ledger, scope)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        _print_table(found)
    if found.broken:
        raise typer.Exit(1)


def _print_table(found: "Laws") -> None:
    typer.echo(
        f"{found.rows:,} rows ({found.revised_rows:,} of revisions), {found.windows:,} windows of {found.gpus:,} GPUs: "
        + ("no law is broken" if not found.broken else f"{len(found.broken)} broken")
    )
    for each in found.broken:
        at = each.first
        start = datetime.fromtimestamp(at["window_start_us"] / 1e6, UTC)
        holder = f" {at['holder']}" if at["holder"] else ""
        typer.echo(
            f"  {each.law}: {each.count:,} times, first at {at['cluster']}/{at['node']} {at['gpu_uuid']}{holder} "
            f"{start:%Y-%m-%d %H:%M:%S} UTC, revision {at['revision']}: expected {at['expected']}, found {at['found']}"
        )
