"""How a process lists its own numbers, so that page, documentation and `gpumeter status` read one table.

Pure; serving is each process's own furniture (collector/metrics.py, stream_jobs/metrics.py). Laws: names follow
Prometheus' rules (base units, `_total` for counters), and infra/docs/metrics.md is made from these tables
(tests/unit/infra/test_docs_metrics.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .health import Health

COUNTER, GAUGE = "counter", "gauge"


class Metric(NamedTuple):
    """A number that a process shows: `labels` are the names of what it is told apart by."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()


Values = Mapping[str, Mapping[tuple[str, ...], int | float]]
"""Name of a metric to values of its labels to number. What is not known is left out, never 0."""

PROCESS_METRICS = (
    Metric("gpumeter_build_info", GAUGE, "1; which process this is, and of which version", ("process", "version")),
    Metric("gpumeter_healthy", GAUGE, "1 where /healthz answers 200"),
    Metric("gpumeter_ready", GAUGE, "1 where /readyz answers 200"),
    Metric("gpumeter_loop_age_seconds", GAUGE, "Time since the process's loop last turned"),
)
"""Of every process."""


def page_rows(
    listed: Sequence[Metric], values: Values, health: Health, version: str
) -> Iterator[tuple[Metric, list[tuple[tuple[str, ...], int | float]]]]:
    """Each metric of a page with its (labels, number) pairs, in the table's order.

    KeyError where a value has no row in the table: it would be shown without documentation.
    """
    known: dict[str, Mapping[tuple[str, ...], int | float]] = {
        **values,
        "gpumeter_build_info": {(health.process, version): 1},
        "gpumeter_healthy": {(): int(health.healthy)},
        "gpumeter_ready": {(): int(health.ready)},
        "gpumeter_loop_age_seconds": {(): health.loop_age_s},
    }
    rows = (*PROCESS_METRICS, *listed)
    strangers = known.keys() - {metric.name for metric in rows}
    if strangers:
        raise KeyError(f"metrics that no table lists: {sorted(strangers)}")
    for metric in rows:
        yield metric, sorted(known.get(metric.name, {}).items())
