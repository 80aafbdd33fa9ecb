"""`gpumeter simulate`: list the scenarios, or play one against a broker with the real agent and watcher.

Shell of infra/sim/lockstep.py. Tested in tests/integration/test_lockstep.py.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from infra.sim.lockstep import SimulationPlan

LIVE_HOURS = 24.0


Scenario = Annotated[
    str | None, typer.Argument(help="Name of a shipped scenario or a YAML file; without it: the list.")
]
Servers = Annotated[
    str, typer.Option(envvar="GPUMETER_BOOTSTRAP_SERVERS", help="Broker addresses; its topics must exist.")
]
Hours = Annotated[float | None, typer.Option(min=0.01, help="Simulated hours; else as the scenario says (live: 24).")]
Trace = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="GenTD26 duty cycles or openb pod list: its pods instead."),
]
Start = Annotated[
    int | None, typer.Option(help="Event time of the start, microseconds; else so that it ends about now.")
]
Out = Annotated[Path, typer.Option(help="Where truth-NODE.jsonl and logs go.")]
Live = Annotated[bool, typer.Option("--live", help="In real time, until Ctrl-C.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def simulate(
    scenario: Scenario = None,
    bootstrap_servers: Servers = "127.0.0.1:9092",
    hours: Hours = None,
    trace: Trace = None,
    start_us: Start = None,
    out: Out = Path("build/simulation"),
    live: Live = False,
    as_json: AsJson = False,
) -> None:
    """Play a simulated cluster against a broker: GPUs, kubelets and API server simulated, agent and watcher real.

    Example: gpumeter simulate time-slicing --hours 0.5 --bootstrap-servers 127.0.0.1:9092
    """
    from infra.sim.clock import wall_us
    from infra.sim.lockstep import RUN_ON_US, SimulationPlan, aligned_start_us
    from infra.sim.scenario import load_cluster
    from infra.sim.scenario_format import ScenarioError
    from infra.sim.traces import TraceError
    from schemas.units import US_PER_HOUR

    if scenario is None and trace is None:
        _list(as_json)
        return
    hours = LIVE_HOURS if live and hours is None else hours
    name, file = scenario or "default", None if trace is None else str(trace)
    try:
        cluster, workload = load_cluster(name, start_us=0, hours=hours, trace=file)
    except (ScenarioError, TraceError) as error:
        typer.echo(f"gpumeter simulate: {error}", err=True)
        raise typer.Exit(2) from error
    if start_us is None:
        start_us = wall_us() if live else aligned_start_us(wall_us(), cluster.end_us + RUN_ON_US)
    for note in workload.notes:
        typer.echo(f"note: {note}", err=True)
    plan = SimulationPlan(
        bootstrap_servers,
        out,
        start_us,
        scenario=name,
        trace=file,
        hours=cluster.end_us / US_PER_HOUR,
        live=live,
    )
    _play(plan, as_json)


def _list(as_json: bool) -> None:
    from infra.sim.scenario_format import read_scenario, shipped_scenarios

    found = [read_scenario(name) for name in shipped_scenarios()]
    if as_json:
        rows = [{"name": item.name, "summary": item.summary, "hours": item.hours} for item in found]
        typer.echo(json.dumps(rows, indent=2))
        return
    for item in found:
        typer.echo(f"{item.name:<15} {item.summary} ({item.hours:g} h)")


def _play(plan: "SimulationPlan", as_json: bool) -> None:
    from infra.broker import topics
    from infra.sim.interrupt import Interrupt
    from infra.sim.lockstep import Simulation
    from infra.sim.member import SimulationError

    absent = [change.topic for change in topics.compare(plan.bootstrap_servers) if change.kind == "create"]
    if absent:
        typer.echo(
            f"gpumeter simulate: {plan.bootstrap_servers} lacks {', '.join(absent)}; run `gpumeter topics apply`",
            err=True,
        )
        raise typer.Exit(3)
    interrupt = Interrupt().listen()
    try:
        with Simulation(plan, interrupt.check) as simulation:
            while plan.live:
                interrupt.check()
                simulation.check()
                simulation.pause(1)
            simulation.run(lambda now_us: interrupt.check())
            result = {"start_us": plan.start_us, "end_us": simulation.end_us, "pods": len(simulation.cluster.pods)}
    except SimulationError as error:
        typer.echo(f"gpumeter simulate: {error}", err=True)
        raise typer.Exit(3) from error
    shown = (
        json.dumps({**result, "truth": str(plan.out)})
        if as_json
        else f"Played {result['pods']} pods; truth in {plan.out}"
    )
    typer.echo(shown)
