"""Options that several subcommands share, so that one thing has one name, one variable and one help text."""

from pathlib import Path
from typing import Annotated

import typer

SINK_GROUP = "gpumeter-sink"
"""Consumer group under which the sink shows how far it is."""
DEFAULT_LEDGER = Path("build/demo/ledger")

LedgerUrl = Annotated[
    str | None,
    typer.Option(
        envvar="GPUMETER_CLICKHOUSE_URL",
        help="A ClickHouse server, http(s)://user:password@host:port/database. Without it: the embedded engine.",
    ),
]
LedgerDirectory = Annotated[
    Path, typer.Option(envvar="GPUMETER_LEDGER_DIRECTORY", help="Directory of the embedded ledger.")
]
