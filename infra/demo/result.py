"""The demo's result from the ledger: the figures of summary.json and of the report.

Owns which figures there are and their names; asks through a `query` it is given, so it knows neither server nor
engine. Law: a run without windows or pods is an error, never a perfect score (tests/e2e/test_demo.py).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from infra.demo import queries
from infra.demo.accuracy import comparison, pod_hours
from infra.demo.errors import DemoError
from infra.demo.report import PodFigures

Query = Callable[[str], Sequence[Sequence[Any]]]


class Result(NamedTuple):
    """What the report prints; `summary` is what build/demo/summary.json holds."""

    pods: list[PodFigures]
    hardware: list[tuple[str, int]]
    lifetime_us: int
    summary: dict[str, Any]


def collect(query: Query, start_us: int, end_us: int) -> Result:
    """Everything the ledger and the truth say about [start, end)."""
    windows, rows, lifetime_us, observed_us, pods = (int(v or 0) for v in query(queries.totals(start_us, end_us))[0])
    if not windows or not pods:
        raise DemoError(f"the ledger has {windows} windows and {pods} pods of the simulated time: nothing was metered")
    hardware = [(str(kind), int(charged)) for kind, charged in query(queries.hardware(start_us, end_us))]
    figures = [PodFigures(*row) for row in query(queries.pods(start_us, end_us))]
    summary = {
        "windows": windows,
        "rows": rows,
        "conservation_violations": int(query(queries.VIOLATIONS)[0][0]),
        "pods": pods,
        "unattributed_pct": 100 * dict(hardware).get("unattributed", 0) / max(observed_us, 1),
        "unobserved_pct": 100 * dict(hardware).get("unobserved", 0) / max(lifetime_us, 1),
        **comparison(pod_hours(query(queries.pod_hours(start_us, end_us)))),
        "start_us": start_us,
        "end_us": end_us,
    }
    return Result(figures, hardware, lifetime_us, summary)
