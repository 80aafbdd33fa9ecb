"""`gpumeter top`: who uses the GPUs now, from windows that are still open, or in the last closed ones.

Owns the form of what is printed. Tested in tests/integration/test_cli_top.py.
"""

import json
import threading
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.cli.options import DEFAULT_LEDGER, LedgerDirectory, LedgerUrl

if TYPE_CHECKING:
    from rich.console import RenderableType

    from infra.top.figures import Wanted
    from stream_jobs.ledger import Ledger

_NARROW = 100
_REFRESH_S = 2.0
_WHO = {"pod": ("namespace", "pod", "gpu"), "namespace": ("namespace", "pods"), "gpu": ("node", "gpu", "pods")}
_FIGURES = ("held s", "used s", "±", "charged s", "memory GiB", "coverage")
_WORDS = ("basis", "flags")


class By(StrEnum):
    """What a line is."""

    POD = "pod"
    NAMESPACE = "namespace"
    GPU = "gpu"


class Sort(StrEnum):
    """By what lines are sorted."""

    USED = "used"
    HELD = "held"
    CHARGED = "charged"
    MEMORY = "memory"


def top(
    by: Annotated[By, typer.Option(help="What a line is.")] = By.POD,
    sort: Annotated[Sort, typer.Option(help="The most of which comes first.")] = Sort.USED,
    windows: Annotated[int | None, typer.Option(min=1, max=1440, help="The last closed windows, so many.")] = None,
    rows: Annotated[int, typer.Option(min=1, max=10_000, help="Most lines shown.")] = 40,
    once: Annotated[bool, typer.Option("--once", help="Print once; so it is where no terminal is.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON once: times in microseconds.")] = False,
    url: LedgerUrl = None,
    directory: LedgerDirectory = DEFAULT_LEDGER,
) -> None:
    """Show who uses the GPUs now: GPU-seconds held, used ± one standard deviation, charged, and memory.

    The figures are of the two newest windows that are still open: provisional, never billed, and said to be so with
    their age; where no window is open, the last closed ones. --windows shows closed windows only. Coverage is the part
    of the time in which use is known; a dash is a figure that nobody can know, never a zero. Refreshes every 2 s.

    Example: gpumeter top --by namespace --sort held --once
    """
    from infra.front.place import open_to_read
    from infra.top.figures import Wanted, figures
    from stream_jobs.ledger import LedgerError

    wanted = Wanted(by.value, sort.value, rows, windows)
    try:
        ledger = open_to_read(url, directory)
    except (LedgerError, ValueError) as error:
        typer.echo(f"gpumeter top: {error}", err=True)
        raise typer.Exit(2 if isinstance(error, ValueError) else 3) from error
    try:
        if as_json:
            typer.echo(json.dumps(figures(ledger, wanted)))
        else:
            _show(ledger, wanted, once)
    except LedgerError as error:
        typer.echo(f"gpumeter top: {ledger.place}: {error}; is it of this version (`gpumeter migrate`)?", err=True)
        raise typer.Exit(3) from error
    finally:
        ledger.close()


def _show(ledger: "Ledger", wanted: "Wanted", once: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from infra.top.figures import figures

    console = Console()
    if once or not console.is_terminal:
        console = console if console.is_terminal else Console(width=200, color_system=None)
        console.print(_render(figures(ledger, wanted), console.width))
        return
    wait = threading.Event()
    with Live(auto_refresh=False, screen=True) as live:
        try:
            while True:
                live.update(_render(figures(ledger, wanted), live.console.width), refresh=True)
                wait.wait(_REFRESH_S)
        except KeyboardInterrupt:
            return


def _render(answer: dict[str, Any], width: int) -> "RenderableType":
    """The table; a narrow terminal has no room for the basis."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not answer["gpus"]:
        return Text("The ledger has no windows yet, open or closed: the first figures come with the first reading.")
    wide = width >= _NARROW
    table = Table(header_style="bold", show_edge=False, pad_edge=False, box=SIMPLE_HEAD, padding=(0, int(wide), 0, 0))
    who, words = _WHO[answer["by"]], _WORDS if wide else _WORDS[1:]
    for name in who + _FIGURES + words:
        figure = name in _FIGURES or name == "pods"
        table.add_column(name, justify="right" if figure else "left", overflow="fold", no_wrap=figure or name == "gpu")
    for row in answer["rows"]:
        cells = {"namespace": row.get("namespace") or "?", "pod": row.get("pod_name") or "?", "node": row.get("node")}
        cells |= {"gpu": row.get("gpu_uuid", "")[:12], "pods": str(row["pods"]), "basis": row["basis"]}
        times = [_seconds(row[name]) for name in ("held_us", "used_us", "used_plus_minus_us", "charged_us")]
        memory = "–" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 2**30:,.1f}"
        coverage = "–" if row["coverage"] is None else f"{row['coverage']:.0%}"
        basis = [row["basis"]] if wide else []
        table.add_row(*(cells[name] for name in who), *times, memory, coverage, *basis, " ".join(row["flags"]))
    return Group(Text(_title(answer), style="bold yellow" if answer["provisional"] else "italic"), table)


def _title(answer: dict[str, Any]) -> str:
    start, end = (datetime.fromtimestamp(answer[name] / 1e6, UTC) for name in ("from_us", "to_us"))
    life = max(answer["lifetime_us"], 1)
    parts = ", ".join(f"{name} {value / life:.1%}" for name, value in answer["parts_us"].items() if value)
    kind = f"PROVISIONAL, {_age(answer['age_us'])} old: open windows" if answer["provisional"] else "Closed windows"
    return f"{kind} {start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, {answer['gpus']} GPUs: {parts}"


def _age(age_us: int) -> str:
    seconds = max(0, age_us // 1_000_000)
    return f"{seconds} s" if seconds < 600 else f"{seconds // 60} min"


def _seconds(value_us: float | None) -> str:
    return "–" if value_us is None else f"{value_us / 1e6:,.1f}"
