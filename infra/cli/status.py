"""`gpumeter status`: the pipeline at a glance. Shell of infra/status; owns the form of what is printed.

Tested in tests/integration/test_status.py.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli.options import SINK_GROUP

if TYPE_CHECKING:
    from rich.console import Console

    from infra.status.process import ProcessState

_FIGURES = {
    "worker": (
        ("lag records", "gpumeter_worker_lag_records", sum), ("lag s", "gpumeter_worker_lag_seconds", max),
        ("event lag s", "gpumeter_worker_event_lag_seconds", max),
        ("open windows", "gpumeter_worker_open_windows", sum), ("late s", "gpumeter_worker_late_seconds_total", sum),
        ("unattributed", "gpumeter_worker_unattributed_ratio", max),
        ("unobserved", "gpumeter_worker_unobserved_ratio", max),
        ("dead letters", "gpumeter_worker_dead_letters_total", sum),
        ("violations", "gpumeter_worker_conservation_violations_total", sum),
    ),
    "sink": (
        ("lag records", "gpumeter_sink_lag_records", sum), ("lag s", "gpumeter_sink_lag_seconds", max),
        ("rows", "gpumeter_sink_rows_total", sum), ("dead letters", "gpumeter_sink_dead_letters_total", sum),
        ("retries", "gpumeter_sink_retries_total", sum),
    ),
    "collector": (
        ("readings", "gpumeter_collector_readings_total", sum), ("queued", "gpumeter_queued_messages", sum),
        ("grants known", "gpumeter_collector_grants_known", sum),
    ),
    "watcher": (
        ("pods", "gpumeter_watcher_pods", sum), ("nodes", "gpumeter_watcher_nodes", sum),
        ("retries", "gpumeter_watcher_retries_total", sum), ("queued", "gpumeter_queued_messages", sum),
    ),
}  # fmt: skip
"""Of a process: what is shown, of which metric, and how its labels are put together."""

Servers = Annotated[
    str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses, host:port, comma between them.")
]
Pages = Annotated[
    list[str] | None,
    typer.Option("--metrics", metavar="HOST:PORT", help="Metrics port of a process; once for each of them."),
]
Url = Annotated[
    str | None, typer.Option(envvar="GPUMETER_CLICKHOUSE_URL", help="URL of the ledger's ClickHouse, or of its front.")
]
Directory = Annotated[
    Path | None, typer.Option(envvar="GPUMETER_LEDGER_DIRECTORY", help="Directory of the embedded ledger.")
]
SilentSeconds = Annotated[int, typer.Option(min=1, help="Wrong when an input partition was silent for longer.")]
ProgressSeconds = Annotated[int, typer.Option(min=1, help="Wrong when the worker's progress is farther behind.")]
LedgerSeconds = Annotated[int, typer.Option(min=1, help="Wrong when rows wait longer for the ledger.")]


def status(
    bootstrap_servers: Servers = "127.0.0.1:9092",
    metrics: Pages = None,
    url: Url = None,
    directory: Directory = None,
    group: Annotated[str, typer.Option(envvar="GPUMETER_WORKER_GROUP", help="The workers' group.")] = "gpumeter",
    silent_s: SilentSeconds = 60,
    progress_s: ProgressSeconds = 900,
    ledger_s: LedgerSeconds = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show how the pipeline stands: each topic's records and lag, dead letters, the ledger, the processes.

    From Kafka alone; with --directory or --url also from the ledger, with --metrics from processes. Exit codes: 0 all
    well, 1 something is behind or wrong (each is named), 3 the broker does not answer.

    Example: gpumeter status --bootstrap-servers 127.0.0.1:9092 --metrics 127.0.0.1:9101 --directory build/demo/ledger
    """
    from infra.broker.errors import BrokerError
    from infra.status.judge import Bounds, Groups

    groups, bounds = Groups(group, SINK_GROUP), Bounds(silent_s, progress_s, ledger_s)
    try:
        answer = _answer(bootstrap_servers, metrics or [], (url, directory), groups, bounds)
    except BrokerError as error:
        typer.echo(f"gpumeter status: {error}", err=True)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _print(answer)
    if answer["findings"]:
        raise typer.Exit(1)


def _answer(
    bootstrap: str, pages: list[str], ledger: tuple[str | None, Path | None], groups: Any, bounds: Any
) -> dict[str, Any]:
    from infra.broker.lag import Question, look
    from infra.status.judge import HOUR_US, findings, numbers_of
    from infra.status.ledger import ledger_state
    from infra.status.process import ask
    from schemas.names import DEAD_LETTERS, GPU_USAGE, INPUT_TOPICS
    from stream_jobs.clock import wall_us

    now_us = wall_us()
    progress_us, ledger_us = now_us - bounds.progress_s * 1_000_000, now_us - bounds.ledger_s * 1_000_000
    questions = [Question(topic, groups.worker, progress_us) for topic in INPUT_TOPICS]
    questions += [Question(GPU_USAGE, groups.sink, ledger_us), Question(DEAD_LETTERS, None, now_us - HOUR_US)]
    standing = look(bootstrap, questions)
    state, processes = ledger_state(*ledger), [ask(page) for page in pages]
    found = findings(standing, state, processes, groups, bounds, now_us)
    topics = [numbers_of(place, now_us) for place in standing.places]
    return {
        "healthy": not found,
        "findings": found,
        "brokers": standing.brokers,
        "members": standing.members,
        "topics": topics,
        "dead_letters": sum(t["records"] for t in topics if t["topic"] == DEAD_LETTERS),
        "ledger": state,
        "processes": [_shown(process) for process in processes],
    }


def _shown(process: "ProcessState") -> dict[str, Any]:
    if process.health is None:
        return {"address": process.address, "process": None, "reasons": [process.trouble], "figures": {}}
    figures = {}
    for title, name, together in _FIGURES.get(process.health.process, ()):
        if values := process.numbers.get(name):
            figures[title] = round(together(values.values()), 4)
    return {
        "address": process.address,
        "process": process.health.process,
        "healthy": process.health.healthy,
        "ready": process.health.ready,
        "reasons": process.health.reasons,
        "figures": figures,
    }


def _print(answer: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console = console if console.is_terminal else Console(width=160, color_system=None)
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for name in ("topic", "partition", "records", "end", "committed", "lag", "newest"):
        table.add_column(name, justify="left" if name == "topic" else "right")
    for row in answer["topics"]:
        age = "–" if row["newest_age_s"] is None else f"{row['newest_age_s']:,.0f} s ago"
        numbers = (row[name] for name in ("partition", "records", "end", "committed", "lag_records"))
        table.add_row(row["topic"], *("–" if number is None else f"{number:,}" for number in numbers), age)
    console.print(table)
    _print_rest(console, answer)
    for finding in answer["findings"]:
        console.print(Text(f"! {finding}", style="bold red"))
    if not answer["findings"]:
        console.print(Text("all well", style="bold green"))


def _print_rest(console: "Console", answer: dict[str, Any]) -> None:
    from rich.text import Text

    members = ", ".join(f"{group} {count}" for group, count in answer["members"].items() if group != SINK_GROUP)
    lines = [f"brokers {answer['brokers']}; workers: {members}; dead letters {answer['dead_letters']}"]
    if answer["ledger"] is not None:
        names = ("state", "rows", "messages", "dead_letters", "next_offsets")
        told = ((name.replace("_", " "), answer["ledger"].get(name)) for name in names)
        lines.append("ledger: " + ", ".join(f"{name} {value}" for name, value in told if value is not None))
    for process in answer["processes"]:
        word = "away" if process["process"] is None else "ready" if process["ready"] else "not ready"
        figures = ", ".join(f"{name} {value:g}" for name, value in process["figures"].items())
        lines.append(f"{process['process'] or '?'} {process['address']}: {word}" + (f"; {figures}" if figures else ""))
    for line in lines:
        console.print(Text(line))
