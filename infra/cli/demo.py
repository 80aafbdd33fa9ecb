"""`gpumeter demo`: the whole meter on a simulated cluster. Shell of infra/demo; turns its end into an exit code.

Tested in tests/e2e/test_demo.py and tests/e2e/test_demo_interrupted.py.
"""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    scenario: Annotated[
        str, typer.Option(envvar="GPUMETER_SCENARIO", help="A shipped scenario's name, or a .yaml file.")
    ] = "default",
    trace: Annotated[
        str | None,
        typer.Option(help="A public trace instead: GenTD26 duty cycles or an openb pod list, CSV or packed."),
    ] = None,
    hours: Annotated[
        float | None, typer.Option(min=0.05, max=1000, help="Simulated hours; default: the scenario's.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="In real time, until Ctrl-C.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep broker, sink and worker up after the result, until Ctrl-C.")
    ] = False,
    partitions: Annotated[
        int, typer.Option(min=1, max=64, envvar="GPUMETER_PARTITIONS", help="Partitions of the topics.")
    ] = 2,
    step_seconds: Annotated[
        float | None, typer.Option(min=1, max=60, help="Simulated seconds in one step of all; 5, or 30 above 2 hours.")
    ] = None,
    out: Annotated[
        Path, typer.Option(envvar="GPUMETER_DEMO_DIRECTORY", help="Where ledger, logs and summary.json go.")
    ] = Path("build/demo"),
    picture: Annotated[Path | None, typer.Option(help="Also write the report to this SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of tables.")] = False,
) -> None:
    """Run everything on this machine and compare the metered pods with the truth.

    Starts Apache Kafka, worker and sink; plays a simulated cluster through the unmodified node agent and watcher,
    faster than real time; prints GPU-seconds per pod beside the truth and the usual methods; stops everything. The
    ledger stays in OUT/ledger for `gpumeter sql`, the figures in OUT/summary.json.

    Example: gpumeter demo --scenario short-pods --hours 0.5
    """
    from infra.demo.plan import Plan
    from infra.demo.show import show

    plan = Plan(scenario, trace, hours, keep, live, partitions, out, step_seconds)
    raise typer.Exit(show(plan, as_json, picture))
