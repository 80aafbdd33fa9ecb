"""`gpumeter accuracy`: our error beside that of the usual methods. Shell of infra/demo.

Tested in tests/unit/infra/test_cli_accuracy.py and tests/e2e/test_demo.py.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def accuracy(
    scenario: Annotated[
        str | None, typer.Option(help="Run this scenario (a shipped name or a .yaml file) and compare.")
    ] = None,
    trace: Annotated[str | None, typer.Option(help="Run this public trace and compare.")] = None,
    hours: Annotated[float | None, typer.Option(min=0.05, max=1000, help="Simulated hours of the run.")] = None,
    out: Annotated[
        Path, typer.Option(envvar="GPUMETER_DEMO_DIRECTORY", help="Where the last demo's summary.json lies.")
    ] = Path("build/demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare metered pods with the truth: ours and what people use now, per pod and hour.

    Without --scenario or --trace it shows the last demo's result; with one of them it runs it first, beside that
    result. Methods: (a) device gauge copied to each pod every 30 s, (b) last smUtil times the interval, (c)
    max(request, usage), (d) whole device by request.

    Example: gpumeter accuracy --scenario time-slicing --json
    """
    from rich.console import Console

    from infra.demo.report import methods_table

    if scenario or trace or hours:
        from infra.demo.plan import Plan
        from infra.demo.result import Result
        from infra.demo.show import run

        told: list[Result] = []
        code = run(
            Plan(scenario or "default", trace, hours, out=out.parent / "accuracy"), Console(stderr=True), told.append
        )
        if not told:
            raise typer.Exit(code)
        summary: dict[str, Any] = told[0].summary
    else:
        try:
            summary = json.loads((out / "summary.json").read_text())
        except FileNotFoundError:
            typer.echo(
                f"gpumeter accuracy: no demo has run in {out}: run `gpumeter demo`, or name a --scenario", err=True
            )
            raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({name: value for name, value in summary.items() if name != "seconds"}, indent=2))
    else:
        Console().print(methods_table(summary))
