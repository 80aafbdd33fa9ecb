"""`gpumeter topics`: make the topics of the catalogue on a broker, or compare them with it.

Shell of infra/broker/topics.py. Tested in tests/integration/test_topics.py.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.broker.plan import Change

app = typer.Typer(
    help="Create the topics, or compare them with the catalogue.\n\nExample: gpumeter topics diff",
    no_args_is_help=True,
)

Servers = Annotated[
    str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses, host:port, comma between them.")
]
Partitions = Annotated[
    int | None,
    typer.Option(
        min=1,
        envvar="GPUMETER_PARTITIONS",
        help="Partitions of the topics that are partitioned alike; else as catalogued.",
    ),
]
Replication = Annotated[
    int | None,
    typer.Option(min=1, envvar="GPUMETER_REPLICATION", help="Replicas; else 3, or as many as there are brokers."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_LOCAL = "127.0.0.1:9092"


@app.command()
def apply(
    bootstrap_servers: Servers = _LOCAL,
    partitions: Partitions = None,
    replication: Replication = None,
    as_json: AsJson = False,
) -> None:
    """Create the topics that are missing and set what differs; never changes a partition count (exit code 1).

    Example: gpumeter topics apply --bootstrap-servers 127.0.0.1:9092 --partitions 4
    """
    from infra.broker.topics import apply as apply_topics

    changes = _ask(lambda: apply_topics(bootstrap_servers, partitions=partitions, replication=replication))
    _show(changes, as_json, {"create": "created", "configure": "set", "refused": "refused"})
    if any(change.kind == "refused" for change in changes):
        raise typer.Exit(1)


@app.command()
def diff(
    bootstrap_servers: Servers = _LOCAL,
    partitions: Partitions = None,
    replication: Replication = None,
    as_json: AsJson = False,
) -> None:
    """Name every difference between broker and catalogue; exit code 1 when there is one. Changes nothing.

    Example: gpumeter topics diff --bootstrap-servers 127.0.0.1:9092 --json
    """
    from infra.broker.topics import compare

    changes = _ask(lambda: compare(bootstrap_servers, partitions=partitions, replication=replication))
    _show(changes, as_json, {"create": "missing", "configure": "differs", "refused": "differs"})
    if changes:
        raise typer.Exit(1)


def _ask(call: "Callable[[], list[Change]]") -> "list[Change]":
    from infra.broker.errors import BrokerError

    try:
        return call()
    except BrokerError as error:
        typer.echo(f"gpumeter topics: {error}", err=True)
        raise typer.Exit(3) from error


def _show(changes: "list[Change]", as_json: bool, words: dict[str, str]) -> None:
    if as_json:
        typer.echo(json.dumps([{"topic": c.topic, "kind": words[c.kind], "text": c.text} for c in changes]))
        return
    for change in changes:
        typer.echo(f"{words[change.kind]}: {change.topic}: {change.text}")
    if not changes:
        typer.echo("topics equal the catalogue")
