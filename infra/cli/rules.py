"""`gpumeter rules`: which lengths and latenesses of windows were told, and telling another.

Shell of schemas/rules.py and stream_jobs/core/calendar.py. Tested in tests/integration/test_rules_on_kafka.py.
"""

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from stream_jobs.core.calendar import Change

app = typer.Typer(
    help="Length and lateness of windows, changed for all workers from a time on.\n\nExample: gpumeter rules list",
    no_args_is_help=True,
)

Servers = Annotated[
    str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses, host:port, comma between them.")
]
WindowS = Annotated[int, typer.Option(envvar="GPUMETER_WORKER_WINDOW_S", help="Length that the workers start with.")]
LatenessS = Annotated[
    int, typer.Option(envvar="GPUMETER_WORKER_LATENESS_S", help="Lateness that the workers start with.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_LOCAL = "127.0.0.1:9092"


@app.command("list")
def list_rules(
    bootstrap_servers: Servers = _LOCAL, window_s: WindowS = 60, lateness_s: LatenessS = 120, as_json: AsJson = False
) -> None:
    """The rules that count, oldest first, and why others do not.

    Example: gpumeter rules list --json
    """
    rules, refused = _told(bootstrap_servers, window_s, lateness_s)
    if as_json:
        typer.echo(json.dumps({"rules": [_shown(rule) for rule in rules], "refused": refused}))
        return
    for rule in rules:
        shown = _shown(rule)
        typer.echo(f"from {shown['effective']}: windows of {shown['window_s']} s, lateness {shown['lateness_s']} s")
    for fault in refused:
        typer.echo(f"does not count: {fault}", err=True)


@app.command()
def change(
    effective: Annotated[
        str, typer.Option(help="UTC time from which it holds, e.g. 2030-01-01T00:00:00; a window start.")
    ],
    window: Annotated[int, typer.Option("--window", help="Length of a window in seconds.")],
    lateness: Annotated[int, typer.Option("--lateness", help="How long a window waits after its end, in seconds.")],
    note: Annotated[str, typer.Option(help="Why; kept with it.")] = "",
    bootstrap_servers: Servers = _LOCAL,
    window_s: WindowS = 60,
    lateness_s: LatenessS = 120,
) -> None:
    """Tell every worker to use other windows from a time on, ten minutes ahead at least; it cannot be taken back.

    Exit codes: 1 the rule would not count (nothing is told).

    Example: gpumeter rules change --effective 2030-01-01T00:00:00 --window 60 --lateness 300 --note "long spools"
    """
    from schemas.headers import RULE, Headers, encode_headers
    from schemas.names import METER_SETTINGS
    from schemas.rules import Rule, encode_rule
    from stream_jobs.clock import wall_us
    from stream_jobs.core.calendar import Change, fault_of
    from stream_jobs.publish import Outgoing, Publisher

    try:
        at_us = int(datetime.fromisoformat(effective).replace(tzinfo=UTC).timestamp()) * 1_000_000
    except ValueError as error:
        typer.echo(f"gpumeter rules change: --effective {effective!r}: {error}", err=True)
        raise typer.Exit(2) from error
    rules, _ = _told(bootstrap_servers, window_s, lateness_s)
    new = Change(at_us, window * 1_000_000, lateness * 1_000_000)
    fault = fault_of(rules[-1], new, wall_us())
    if fault:
        typer.echo(f"gpumeter rules change: would not count: {fault}", err=True)
        raise typer.Exit(1)
    rule = Rule(effective_us=at_us, window_us=new.window_us, lateness_us=new.lateness_us, note=note)
    publisher = Publisher(bootstrap_servers, "gpumeter-rules")
    key, headers = str(at_us).encode(), encode_headers(Headers(record=RULE, cluster=""))
    publisher.send(Outgoing(METER_SETTINGS, 0, key, headers, encode_rule(rule)))
    publisher.flush()
    typer.echo(f"told: from {_shown(new)['effective']} on windows of {window} s, lateness {lateness} s")


def _told(bootstrap: str, window_s: int, lateness_s: int) -> "tuple[list[Change], list[str]]":
    from stream_jobs.core.calendar import Change, calendar_of
    from stream_jobs.errors import Retry
    from stream_jobs.log_reader import read_rules

    try:
        told = read_rules(bootstrap)
    except Retry as error:
        typer.echo(f"gpumeter rules: {error}", err=True)
        raise typer.Exit(3) from error
    first = Change(0, window_s * 1_000_000, lateness_s * 1_000_000)
    calendar, refused = calendar_of(first, [(at, rule) for at, rule in told if isinstance(rule, Change)])
    return list(calendar.rules), [*(rule for _, rule in told if isinstance(rule, str)), *refused]


def _shown(rule: "Change") -> dict[str, Any]:
    at = datetime.fromtimestamp(rule.effective_us / 1_000_000, UTC)
    effective = at.strftime("%Y-%m-%dT%H:%M:%SZ") if rule.effective_us else "ever"
    return {
        "effective": effective,
        "window_s": rule.window_us // 1_000_000,
        "lateness_s": rule.lateness_us // 1_000_000,
    }
