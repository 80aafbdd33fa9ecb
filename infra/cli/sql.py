"""`gpumeter sql`: asks the ledger in SQL. Shell of the ledger; formats CSV and JSON by ClickHouse itself.

Tested in tests/integration/test_cli_ledger.py.
"""

import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli.options import DEFAULT_LEDGER, LedgerDirectory, LedgerUrl

if TYPE_CHECKING:
    from stream_jobs.ledger import Ledger

_OWN_FORMAT = re.compile(r"\bFORMAT\s+\w+\s*$", re.IGNORECASE)
_ENDLESS = 100_000
_OF_TABLES = ("default_type", "default_expression", "codec_expression", "ttl_expression")
"""What DESCRIBE also tells; empty for a view, and then not shown."""
_NUMBERS = {"output_format_json_quote_64bit_integers": "0", "output_format_json_array_of_rows": "1"}


def sql(
    query: Annotated[str, typer.Argument(help='The statement; "-" reads it from standard input.')],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array with an object for each row.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a line of names.")] = False,
    url: LedgerUrl = None,
    directory: LedgerDirectory = DEFAULT_LEDGER,
) -> None:
    """Ask the ledger in SQL (ClickHouse's); prints a table, or JSON or CSV.

    Views to begin with: usage_by_pod_hour, usage_by_namespace_day, usage_by_gpu, requested_held_used, usage_current,
    conservation_violations (must be empty); SHOW TABLES lists all, DESCRIBE VIEW says what each column means (names end
    in their unit: _us microseconds, _s seconds). Works while the sink runs, and only reads.
    Exit codes: 2 the SQL is wrong, 3 no ledger or no answer.

    Example: gpumeter sql "SELECT namespace, pod_name, used_s, charged_s FROM requested_held_used ORDER BY used_s DESC"
    """
    from infra.front.place import open_to_read
    from stream_jobs.ledger import LedgerError

    text = (sys.stdin.read() if query == "-" else query).strip().rstrip(";").rstrip()
    if not text or (as_json and as_csv):
        typer.echo(
            f"gpumeter sql: {'--json and --csv exclude each other' if text else 'the statement is empty'}", err=True
        )
        raise typer.Exit(2)
    try:
        ledger = open_to_read(url, directory)
    except (LedgerError, ValueError) as error:
        typer.echo(f"gpumeter sql: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ValueError) else 3) from error
    try:
        _answer(ledger, text, as_json, as_csv)
    except LedgerError as error:
        typer.echo(f"gpumeter sql: {error}", err=True)
        raise typer.Exit(2) from error
    finally:
        ledger.close()


def _answer(ledger: "Ledger", text: str, as_json: bool, as_csv: bool) -> None:
    if _OWN_FORMAT.search(text):
        sys.stdout.buffer.write(ledger.raw(text))
    elif as_json:
        body = ledger.raw(text, "JSONEachRow", _NUMBERS)
        sys.stdout.buffer.write(body if body.strip() else b"[]\n")
    elif as_csv:
        sys.stdout.buffer.write(ledger.raw(text, "CSVWithNames"))
    else:
        body = ledger.raw(text, "JSONCompact", _NUMBERS)
        if body:
            _print_table(json.loads(body))
    sys.stdout.flush()


def _print_table(answer: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    meta, rows = answer["meta"], answer["data"]
    shown = [n for n, c in enumerate(meta) if c["name"] not in _OF_TABLES or any(row[n] for row in rows)]
    for column in (meta[n] for n in shown):
        number = re.match(r"(LowCardinality\()?(Nullable\()?U?(Int|Float|Decimal)", column["type"])
        table.add_column(column["name"], justify="right" if number else "left", no_wrap=not sys.stdout.isatty())
    for row in rows:
        table.add_row(*(Text("null", style="dim") if row[n] is None else Text(_shown(row[n])) for n in shown))
    console, needs = Console(), Console(width=_ENDLESS).measure(table)
    if not console.is_terminal:
        Console(width=needs.maximum, color_system=None).print(table)
    elif needs.minimum <= console.width:
        console.print(table)
    else:
        for row in rows:
            lines = (f"{meta[n]['name']}: {'null' if row[n] is None else _shown(row[n])}" for n in shown)
            console.print(*lines, sep="\n", end="\n\n", markup=False, emoji=False)
    count = len(rows)
    typer.echo(f"{count} row{'' if count == 1 else 's'}", err=True)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
