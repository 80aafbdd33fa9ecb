"""`gpumeter top`: the last closed windows, by pod and GPU. Shell of the ledger; owns one query and its table.

Tested in tests/integration/test_cli_ledger.py.
"""

import json
import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli.options import DEFAULT_LEDGER, LedgerDirectory, LedgerUrl

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stream_jobs.ledger import Ledger

_NARROW = 100
_SPAN = (
    "SELECT max(window_start_us), argMax(window_end_us - window_start_us, window_start_us), count() FROM usage_current"
)
_PODS = """
SELECT namespace, pod_name, gpu_uuid, sum(u.held_us) AS held_us, sum(u.used_us) AS used_us,
       sqrt(sum(toInt128(u.used_variance_us2))) AS plus_minus_us, sum(u.charged_us) AS charged_us,
       sumIf(u.observed_us, u.used_us IS NOT NULL) / sum(u.lifetime_us) AS coverage,
       arrayStringConcat(arraySort(groupUniqArray(u.basis)), '+') AS basis,
       arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE holder_kind = 'pod' AND window_start_us >= {from_us:Int64}
GROUP BY cluster, namespace, pod_name, pod_uid, gpu_uuid
ORDER BY used_us DESC NULLS LAST, charged_us DESC, namespace, pod_name, gpu_uuid
LIMIT {rows:UInt32}
"""
_FLEET = """
SELECT min(window_start_us), uniqExact(node, gpu_uuid), sum(lifetime_us), sum(used_us), sum(hot_idle_us),
       sum(held_empty_us) + sum(idle_kind_unknown_us), sum(unallocated_us), sum(host_us), sum(unattributed_us),
       sum(unobserved_us), sum(use_unknown_us)
FROM usage_by_gpu WHERE window_start_us >= {from_us:Int64}
"""
_PARTS = ("used", "hot idle", "held idle", "unallocated", "host", "unattributed", "unobserved", "use unknown")
_COLUMNS = ("namespace", "pod", "gpu", "held s", "used s", "±", "charged s", "coverage", "basis", "flags")


def top(
    windows: Annotated[int, typer.Option(min=1, max=1440, help="How many of the last windows.")] = 5,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="Most pods shown.")] = 40,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every 2 s until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: times in microseconds.")] = False,
    url: LedgerUrl = None,
    directory: LedgerDirectory = DEFAULT_LEDGER,
) -> None:
    """Show the last closed windows: each pod on each GPU, GPU-seconds held, used ± one standard deviation, charged.

    Coverage is the part of the time in which use is known; a dash is a figure that nobody can know, never a zero.

    Example: gpumeter top --windows 10 --watch
    """
    from infra.front.place import open_to_read
    from stream_jobs.ledger import LedgerError

    try:
        ledger = open_to_read(url, directory)
    except (LedgerError, ValueError) as error:
        typer.echo(f"gpumeter top: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ValueError) else 3) from error
    try:
        if as_json:
            typer.echo(json.dumps(_ask(ledger, windows, rows)))
        elif watch:
            _watch(ledger, windows, rows)
        else:
            _print(ledger, windows, rows)
    except LedgerError as error:
        typer.echo(f"gpumeter top: {error}; are its tables of this version? `gpumeter migrate` says", err=True)
        raise typer.Exit(2) from error
    finally:
        ledger.close()


def _ask(ledger: "Ledger", windows: int, rows: int) -> dict[str, Any]:
    newest_us, length_us, count = (int(value or 0) for value in ledger.query(_SPAN)[0])
    from_us = newest_us - (windows - 1) * length_us
    names = ("namespace", "pod_name", "gpu_uuid", "held_us", "used_us", "used_plus_minus_us", "charged_us", "coverage")
    pods = ledger.query(_PODS, {"from_us": from_us, "rows": rows}) if count else []
    fleet = ledger.query(_FLEET, {"from_us": from_us})[0] if count else (0,) * (len(_PARTS) + 3)
    return {
        "from_us": int(fleet[0]),
        "to_us": newest_us + length_us,
        "gpus": int(fleet[1]),
        "lifetime_us": int(fleet[2] or 0),
        "parts_us": {name: int(value or 0) for name, value in zip(_PARTS, fleet[3:], strict=True)},
        "pods": [dict(zip((*names, "basis", "flags"), row, strict=True)) for row in pods],
    }


def _render(answer: dict[str, Any], width: int) -> "RenderableType":
    """The table; a narrow terminal has no room for the basis."""
    from datetime import UTC, datetime

    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not answer["gpus"]:
        return Text("The ledger has no windows yet: the first closes about 3 minutes after the first reading.")
    start, end = (datetime.fromtimestamp(answer[name] / 1e6, UTC) for name in ("from_us", "to_us"))
    life = max(answer["lifetime_us"], 1)
    parts = ", ".join(f"{name} {value / life:.1%}" for name, value in answer["parts_us"].items() if value)
    title = Text(f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, {answer['gpus']} GPUs: {parts}", style="italic")
    table = Table(
        header_style="bold", show_edge=False, pad_edge=False, box=SIMPLE_HEAD, padding=(0, int(width >= _NARROW), 0, 0)
    )
    columns = [name for name in _COLUMNS if width >= _NARROW or name != "basis"]
    for name in columns:
        figure = name in _COLUMNS[2:8]
        table.add_column(name, justify="right" if name in _COLUMNS[3:8] else "left", overflow="fold", no_wrap=figure)
    for pod in answer["pods"]:
        coverage = "–" if pod["coverage"] is None else f"{pod['coverage']:.0%}"
        times = [_seconds(pod[name]) for name in ("held_us", "used_us", "used_plus_minus_us", "charged_us")]
        basis = [pod["basis"]] if "basis" in columns else []
        who = (pod["namespace"] or "?", pod["pod_name"] or "?", pod["gpu_uuid"][:12])
        table.add_row(*who, *times, coverage, *basis, " ".join(pod["flags"]))
    return Group(title, table)


def _seconds(value_us: float | None) -> str:
    return "–" if value_us is None else f"{value_us / 1e6:,.1f}"


def _print(ledger: "Ledger", windows: int, rows: int) -> None:
    from rich.console import Console

    console = Console()
    console = console if console.is_terminal else Console(width=200, color_system=None)
    console.print(_render(_ask(ledger, windows, rows), console.width))


def _watch(ledger: "Ledger", windows: int, rows: int) -> None:
    from rich.live import Live

    wait = threading.Event()
    with Live(auto_refresh=False, screen=True) as live:
        try:
            while True:
                live.update(_render(_ask(ledger, windows, rows), live.console.width), refresh=True)
                wait.wait(2.0)
        except KeyboardInterrupt:
            return
