"""What is measured: fleets, sweeps and peers, in full and quick. Pure numbers.

Small fleets run longer, so that each run has some tens of millions of samples; every run closes windows. Sizes of the
peers are what each takes in about a minute (quick: in some seconds) on two cores.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from infra.bench.shape import GPUS_A_NODE, FleetShape
from infra.bench.workers import Run


class Varied(NamedTuple):
    """A run, and the sweeps in whose tables it stands."""

    run: Run
    sweeps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Runs over one log."""

    shape: FleetShape
    runs: tuple[Varied, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that one call measures; the last fleet is the headline's."""

    alone: FleetShape
    fleets: tuple[FleetShape, ...]
    peers: dict[str, int]
    """Peer to its nodes."""
    sweeps: tuple[Sweep, ...] = field(default=())
    latency_nodes: int = 0
    """Nodes of the steady fleet; 0: no latency is measured."""


def fleet(gpus: int, windows: int, *, pods: int = 2, window_s: int = 60) -> FleetShape:
    """A fleet of so many GPUs over so many windows."""
    return FleetShape(nodes=gpus // GPUS_A_NODE, windows=windows, pods=pods, window_s=window_s)


def smaller(plan: Plan, up_to: int) -> Plan:
    """The plan without fleets of more GPUs than that, for a machine with less memory."""
    return replace(
        plan,
        fleets=tuple(shape for shape in plan.fleets if shape.gpus <= up_to),
        sweeps=tuple(sweep for sweep in plan.sweeps if sweep.shape.gpus <= up_to),
    )


QUICK = Plan(
    alone=fleet(2_000, 8),
    fleets=(fleet(4_000, 4),),
    peers={"faust_event": 4, "quixstreams": 40, "bytewax": 80, "flink": 250},
)

FULL = Plan(
    alone=fleet(20_000, 4),
    fleets=(fleet(1_000, 40), fleet(5_000, 8), fleet(20_000, 4), fleet(100_000, 4), fleet(300_000, 3)),
    peers={"faust_event": 36, "quixstreams": 400, "bytewax": 200, "flink": 1_800},
    latency_nodes=1_000,
    sweeps=(
        Sweep(
            shape=fleet(20_000, 2), runs=(Varied(Run(workers=1), ("workers",)), Varied(Run(workers=2), ("workers",)))
        ),
        Sweep(
            shape=fleet(20_000, 1, window_s=300),
            runs=(
                Varied(Run(window_s=30), ("window_s",)),
                Varied(Run(), ("window_s", "lateness_s")),
                Varied(Run(window_s=300), ("window_s",)),
                Varied(Run(lateness_s=60), ("lateness_s",)),
                Varied(Run(lateness_s=120), ("lateness_s",)),
            ),
        ),
        *(Sweep(shape=fleet(20_000, 1, pods=pods), runs=(Varied(Run(), ("pods",)),)) for pods in (1, 2, 5, 10)),
    ),
)
