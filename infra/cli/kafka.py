"""`gpumeter kafka`: a real local Apache Kafka in a directory, for trying things; start, stop and status.

Shell of infra/broker; decides nothing. Tested in tests/integration/test_kafka_broker.py.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="A real Apache Kafka on this machine, without Java or Docker.\n\nExample: gpumeter kafka start",
    no_args_is_help=True,
)

Directory = Annotated[
    Path, typer.Option(envvar="GPUMETER_KAFKA_DIRECTORY", help="Where the brokers keep their data and logs.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DEFAULT = Path("build/kafka")


def _say(state: dict[str, object], text: str, as_json: bool) -> None:
    typer.echo(json.dumps(state) if as_json else text)


def _runs(bootstrap: str, pids: list[int], brokers: int, directory: Path) -> str:
    """The state for people, and what to type next: the port is any free one, so the other commands must be told."""
    if not pids:
        return f"no Kafka runs in {directory}; start one with `gpumeter kafka start`"
    number = f"{len(pids)} of {brokers} brokers" if len(pids) != brokers else f"{brokers} broker{'s'[: brokers > 1]}"
    return (
        f"Kafka runs in {directory}: {number}, pid {', '.join(map(str, pids))}\n"
        f"export GPUMETER_BOOTSTRAP_SERVERS={bootstrap}"
    )


@app.command()
def start(
    directory: Directory = _DEFAULT,
    brokers: Annotated[int, typer.Option(min=1, max=5, help="How many brokers; 3 to try failures.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Start the brokers on free ports and leave them running; prints the line that tells the other commands where.

    Example: gpumeter kafka start --directory build/kafka
    """
    from infra.broker.errors import BrokerError
    from infra.broker.kafka import LocalKafka

    cluster = LocalKafka(directory, brokers, bound=False)
    try:
        bootstrap = cluster.start()
    except BrokerError as error:
        typer.echo(f"gpumeter kafka start: {error}", err=True)
        raise typer.Exit(3) from error
    pids = cluster.pids()
    state: dict[str, object] = {"bootstrap_servers": bootstrap, "pids": pids, "directory": str(cluster.directory)}
    _say(state, _runs(bootstrap, pids, brokers, directory), as_json)


@app.command()
def stop(directory: Directory = _DEFAULT, as_json: AsJson = False) -> None:
    """Stop the brokers of the directory; its data stays. Stopping what does not run is no error.

    Example: gpumeter kafka stop
    """
    from infra.broker.state import running_pids, stop_pids

    pids = running_pids(directory)
    stop_pids(pids)
    text = f"stopped pid {', '.join(map(str, pids))}; the data stays in {directory}" if pids else "nothing was running"
    _say({"stopped": pids}, text, as_json)


@app.command()
def status(directory: Directory = _DEFAULT, as_json: AsJson = False) -> None:
    """Say whether the brokers run and where; exit code 1 when they do not.

    Example: gpumeter kafka status --json
    """
    from infra.broker.state import read_ports, running_pids

    ports, pids = read_ports(directory), running_pids(directory)
    bootstrap = ",".join(f"127.0.0.1:{port.client}" for port in ports)
    state: dict[str, object] = {
        "running": len(pids),
        "brokers": len(ports),
        "bootstrap_servers": bootstrap,
        "pids": pids,
    }
    _say(state, _runs(bootstrap, pids, len(ports), directory), as_json)
    if not pids or len(pids) != len(ports):
        raise typer.Exit(1)
