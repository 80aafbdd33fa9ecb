"""The demo's result as a person sees it: pods, the hardware's sum, the methods compared, what to ask next.

Owns presentation only: figures in, rich tables out; knows no database. GPU-seconds here, microseconds everywhere else.
Tested in tests/unit/infra/demo/test_report.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from infra.demo.accuracy import METHODS, US_PER_POINT

MOST_PODS = 30
WIDE = 110
LITTLE = 0.01

NEXT_QUERIES = (
    (
        "Who used GPUs, and who only held them?",
        "SELECT namespace, pod_name, sum(used_us)/1e6 AS used_s, sum(held_us)/1e6 AS held_s, "
        "sum(charged_us)/1e6 AS charged_s FROM usage_by_pod_hour GROUP BY namespace, pod_name ORDER BY used_s DESC",
    ),
    (
        "Where does the hardware's time go?",
        "SELECT gpu_uuid, holder_kind, sum(charged_us)/1e6 AS seconds FROM usage_current "
        "GROUP BY gpu_uuid, holder_kind ORDER BY gpu_uuid, seconds DESC",
    ),
    ("Does every window add up?", "SELECT count() FROM conservation_violations"),
)


class PodFigures(NamedTuple):
    """A pod over the whole run, microseconds; None: not known. `worst_error_us` is that of its worst hour."""

    namespace: str
    pod_name: str
    pod_uid: str
    requested_us: int | None
    held_us: int | None
    used_us: int | None
    used_variance_us2: int | None
    charged_us: int | None
    truth_us: int
    worst_error_us: int
    a_us: int
    b_us: int
    c_us: int
    d_us: int


def seconds(value_us: int | None) -> str:
    """GPU-seconds with one digit; a dash where not known."""
    return "–" if value_us is None else f"{value_us / 1e6:,.1f}"


def pods_table(pods: Sequence[PodFigures], width: int) -> Table:
    """Requested, held, used ± one deviation, charged, truth, error; where it fits, what methods a to d said."""
    wide = width >= WIDE
    table = Table(
        title="GPU-seconds by pod", title_justify="left", header_style="bold", show_edge=False, pad_edge=False
    )
    table.add_column("pod", overflow="fold", min_width=16)
    for name in ("requested", "held", "used", "±", "charged", "truth", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in METHODS if wide else ():
        table.add_column(name, justify="right", style="dim", no_wrap=True)
    for pod in pods[:MOST_PODS]:
        deviation = None if pod.used_variance_us2 is None else round(pod.used_variance_us2**0.5)
        table.add_row(
            f"{pod.namespace}/{pod.pod_name}",
            seconds(pod.requested_us),
            seconds(pod.held_us),
            Text(seconds(pod.used_us), style="bold"),
            seconds(deviation),
            seconds(pod.charged_us),
            Text(seconds(pod.truth_us), style="green"),
            f"{pod.worst_error_us / US_PER_POINT:+.2f}",
            *(seconds(value) for value in (pod.a_us, pod.b_us, pod.c_us, pod.d_us) if wide),
        )
    return table


def methods_table(summary: Mapping[str, Any]) -> Table:
    """Our errors beside those of the usual methods."""
    title = f"Error per pod and hour, in points of a GPU-hour ({summary['pod_hours']} pod-hours)"
    table = Table(title=title, title_justify="left", header_style="bold", show_edge=False, pad_edge=False)
    table.add_column("method")
    for name in ("median", "99 %", "max", "bias"):
        table.add_column(name, justify="right")
    _add_method(table, "gpumeter", summary, "bold")
    for name, figures in summary["methods"].items():
        _add_method(table, f"{name}: {figures['method']}", figures, "")
    return table


def _add_method(table: Table, name: str, figures: Mapping[str, Any], style: str) -> None:
    keys = ("error_points_median", "error_points_p99", "error_points_max")
    table.add_row(name, *(f"{figures[key]:.2f}" for key in keys), f"{figures['bias_points']:+.2f}", style=style)


def hardware_table(rows: Sequence[tuple[str, int]], lifetime_us: int) -> Table:
    """Charged time by kind of holder against the time that the hardware had."""
    table = Table(title="Where the hardware's time went", title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("holder")
    table.add_column("GPU-seconds", justify="right")
    table.add_column("of all", justify="right")
    for kind, charged_us in rows:
        table.add_row(kind, seconds(charged_us), f"{100 * charged_us / max(lifetime_us, 1):.2f} %")
    table.add_section()
    total_us = sum(charged for _, charged in rows)
    table.add_row("sum", f"{total_us:,} µs", "")
    table.add_row("hardware", f"{lifetime_us:,} µs", "equal" if total_us == lifetime_us else "NOT EQUAL")
    return table


def print_report(
    console: Console,
    pods: Sequence[PodFigures],
    hardware: Sequence[tuple[str, int]],
    lifetime_us: int,
    summary: Mapping[str, Any],
    directory: str = "",
) -> None:
    """The whole result; `directory` is that of the ledger where `gpumeter sql` would not find it by itself."""
    console.print()
    console.print(pods_table(pods, console.width))
    if len(pods) > MOST_PODS:
        console.print(f"[dim]... and {len(pods) - MOST_PODS} more pods; ask for them in SQL[/dim]")
    console.print("[dim]error: points of a GPU-hour in the pod's worst hour; a to d: see below[/dim]\n")
    console.print(hardware_table(hardware, lifetime_us))
    unobserved_us = dict(hardware).get("unobserved", 0)
    if unobserved_us > LITTLE * lifetime_us:
        console.print("[dim]used and ± speak of the observed time only; the truth is of all the time[/dim]")
    console.print()
    console.print(methods_table(summary))
    coverage = summary["coverage_2sigma_pct"]
    console.print(
        f"[dim]truth within ± 2 deviations: {'–' if coverage is None else f'{coverage:.1f} %'} of pod-hours[/dim]\n"
    )
    violations = summary["conservation_violations"]
    verdict = (
        "[green]every window adds up to the hardware[/green]" if violations == 0 else "[red]conservation broken[/red]"
    )
    console.print(f"{summary['windows']:,} windows, {summary['rows']:,} rows, {violations} violations: {verdict}")
    place = f" --directory {directory}" if directory else ""
    console.print("\nAsk the ledger:")
    for question, query in NEXT_QUERIES:
        console.print(f"  [dim]# {question}[/dim]")
        console.print(f'  gpumeter sql "{query}"{place}', highlight=False, soft_wrap=True, markup=False)
