"""`gpumeter dead-letters`: what was refused, by kind; one of them in full; and the originals sent again.

Shell of infra/letters and infra/broker; owns the form of what is printed. Tested in
tests/integration/test_dead_letters.py.
"""

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from infra.broker.letters import StoredLetter
    from infra.letters.choose import Choice

app = typer.Typer(
    help="Messages that were refused: list, show, send again.\n\nExample: gpumeter dead-letters list --reason decode",
    no_args_is_help=True,
)

Servers = Annotated[
    str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses, host:port, comma between them.")
]
Reason = Annotated[str | None, typer.Option(help="Only letters of this reason.")]
Topic = Annotated[str | None, typer.Option(help="Only letters of records of this topic.")]
Hours = Annotated[float | None, typer.Option("--hours", min=0.0, help="Only letters of the last so many hours.")]
Each = Annotated[bool, typer.Option("--each", help="A line for each letter instead of one for each kind.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_LOCAL = "127.0.0.1:9092"
_SHOWN_BYTES = 512


@app.command("list")
def list_(
    bootstrap_servers: Servers = _LOCAL,
    reason: Reason = None,
    topic: Topic = None,
    hours: Hours = None,
    each: Each = False,
    as_json: AsJson = False,
) -> None:
    """Count the letters by reason and topic, with times and offsets; --each names every one.

    Example: gpumeter dead-letters list --hours 24
    """
    from infra.letters.choose import Choice, kinds

    letters = _chosen(bootstrap_servers, Choice(reason, topic), hours)
    rows = [_line(stored) for stored in letters] if each else [kind._asdict() for kind in kinds(letters)]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    _print_table([_readable(row) for row in rows])
    typer.echo(f"{len(letters)} dead letters", err=True)


@app.command()
def show(
    offset: Annotated[int, typer.Argument(help="Offset of the letter in dead-letters.")],
    bootstrap_servers: Servers = _LOCAL,
    partition: Annotated[int, typer.Option(min=0, help="Its partition.")] = 0,
    whole: Annotated[bool, typer.Option("--whole", help="All bytes of a payload that cannot be decoded.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one letter in full: reason, origin, headers, and the payload decoded or in hex; exit code 1: none there.

    Example: gpumeter dead-letters show 117
    """
    from infra.broker.letters import read_letters
    from infra.letters.payload import decoded, hexdump

    stored = next(iter(_asked(lambda: list(read_letters(bootstrap_servers, only=(partition, offset))))), None)
    if stored is None or stored.letter is None:
        typer.echo(f"dead-letters/{partition}: {stored.fault if stored else f'no letter at offset {offset}'}", err=True)
        raise typer.Exit(1)
    letter = stored.letter
    content = decoded(letter)
    told: dict[str, Any] = _line(stored) | {
        "headers": [[name, value.decode("utf-8", "backslashreplace")] for name, value in letter.headers],
        "payload_bytes": letter.payload_bytes or len(letter.payload),
        "decoded": content,
    }
    if as_json:
        typer.echo(json.dumps(told | {"payload_base64": base64.b64encode(letter.payload).decode()}))
        return
    for name, value in _readable(told).items():
        if name not in ("headers", "decoded"):
            typer.echo(f"{name}: {value}")
    for name, value in told["headers"]:
        typer.echo(f"  header {name}: {value}")
    most = len(letter.payload) if whole else _SHOWN_BYTES
    typer.echo(hexdump(letter.payload, most) if content is None else json.dumps(content, indent=2))


@app.command()
def retry(
    offsets: Annotated[list[int] | None, typer.Argument(help="Offsets of letters in dead-letters.")] = None,
    bootstrap_servers: Servers = _LOCAL,
    reason: Reason = None,
    topic: Topic = None,
    hours: Hours = None,
    every: Annotated[bool, typer.Option("--all", help="All letters that there are.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, send nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send the original bytes again to their topic and partition, with their headers; each is told in a log line.

    After the cause is gone (a newer reader, a table mended). A record keeps its sequence number, so one that was taken
    after all stays a duplicate; one that is refused again makes a new letter. Letters stay where they are. Exit codes:
    1 nothing was chosen, or not every original is whole in its letter; 2 no choice was given.

    Example: gpumeter dead-letters retry --reason version --hours 24
    """
    from infra.letters.choose import Choice, fault_of

    if not (offsets or reason or topic or hours or every):
        typer.echo("gpumeter dead-letters retry: name offsets, --reason, --topic or --hours, or say --all", err=True)
        raise typer.Exit(2)
    letters = _chosen(bootstrap_servers, Choice(reason, topic, frozenset(offsets or ())), hours)
    sent = _send(bootstrap_servers, [stored for stored in letters if not fault_of(stored)], dry_run)
    kept = [_line(stored) | {"fault": fault} for stored in letters if (fault := fault_of(stored))]
    if as_json:
        typer.echo(json.dumps({"sent": sent, "kept": kept, "dry_run": dry_run}))
    else:
        word = "would be sent again" if dry_run else "sent again"
        typer.echo(f"{len(sent)} of {len(letters)} letters {word}")
        for row in kept:
            typer.echo(f"  not {row['offset']} ({row['reason']}): {row['fault']}", err=True)
    if kept or not letters:
        raise typer.Exit(1)


def _send(bootstrap: str, letters: "list[StoredLetter]", dry_run: bool) -> list[dict[str, Any]]:
    """Sends originals and waits for the acknowledgements; what was sent, with its new offset."""
    from infra.letters.choose import original
    from stream_jobs import log
    from stream_jobs.publish import Publisher

    sent = [_line(stored) | {"new_offset": None} for stored in letters]
    if dry_run or not letters:
        return sent
    log.configure()
    logger, publisher = log.logger("dead_letters"), Publisher(bootstrap, "gpumeter-dead-letters")
    for stored, row in zip(letters, sent, strict=True):
        if stored.letter is not None:
            publisher.send(original(stored.letter), partial(row.__setitem__, "new_offset"))
    publisher.flush()
    for row in sent:
        logger.info("retried", **{name: value for name, value in row.items() if name not in ("detail", "append_us")})
    return sent


def _chosen(bootstrap: str, choice: "Choice", hours: float | None) -> "list[StoredLetter]":
    from infra.broker.letters import read_letters
    from infra.letters.choose import is_chosen
    from stream_jobs.clock import wall_us

    since_us = 0 if hours is None else wall_us() - int(hours * 3_600_000_000)
    found = _asked(lambda: list(read_letters(bootstrap, since_us)))
    return [stored for stored in found if is_chosen(stored, choice)]


def _asked(read: Any) -> "list[StoredLetter]":
    from infra.broker.errors import BrokerError

    try:
        return list(read())
    except BrokerError as error:
        typer.echo(f"gpumeter dead-letters: {error}", err=True)
        raise typer.Exit(3) from error


def _line(stored: "StoredLetter") -> dict[str, Any]:
    letter = stored.letter
    return {
        "offset": stored.offset,
        "append_us": stored.append_us,
        "reason": letter.reason if letter else "unreadable",
        "topic": letter.topic if letter else "",
        "partition": letter.partition if letter else None,
        "record_offset": letter.offset if letter else None,
        "record": letter.record if letter else "",
        "detail": letter.detail if letter else stored.fault,
    }


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """Times as UTC text instead of microseconds."""
    from datetime import UTC, datetime

    return {
        name.removesuffix("_us"): f"{datetime.fromtimestamp(value / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
        if name.endswith("_us") else value
        for name, value in row.items()
    }  # fmt: skip


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text("–" if value is None else str(value)[:200]) for value in row.values()))
    console = Console()
    (console if console.is_terminal else Console(width=240, color_system=None)).print(table)
