"""The page of metrics and health, made from the tables of the processes: `python -m infra.docs.metrics`.

Owns its words and form. Law: the page in the repository is what this makes (tests/unit/infra/test_docs_metrics.py).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from collector.metrics import COLLECTOR_METRICS, SENDER_METRICS
from collector.watcher.figures import WATCHER_METRICS
from schemas.metrics import PROCESS_METRICS, Metric
from stream_jobs.figures import WORKER_METRICS
from stream_jobs.sink_figures import SINK_METRICS

PAGE = Path(__file__).with_name("metrics.md")

TABLES: dict[str, tuple[str, Sequence[Metric]]] = {
    "Every process": ("", PROCESS_METRICS),
    "Collector and watcher": ("", SENDER_METRICS),
    "Collector": ("`GPUMETER_METRICS_PORT`, `GPUMETER_METRICS_ADDRESS`", COLLECTOR_METRICS[len(SENDER_METRICS) :]),
    "Watcher": ("`GPUMETER_METRICS_PORT`, `GPUMETER_METRICS_ADDRESS`", WATCHER_METRICS[len(SENDER_METRICS) :]),
    "Worker": ("`GPUMETER_WORKER_METRICS_PORT`, `GPUMETER_WORKER_METRICS_ADDRESS`", WORKER_METRICS),
    "Sink": ("`GPUMETER_SINK_METRICS_PORT`, `GPUMETER_SINK_METRICS_ADDRESS`", SINK_METRICS),
}
"""Heading to the settings that open the port, and the metrics."""

_HEAD = """\
# Metrics and health
Made from the code by `make docs`; edit the tables there, not here.

Each process answers on its metrics port, once one is set (0, the default: none), on 127.0.0.1 unless an address is set:

- `/metrics`: the numbers below, in Prometheus' form. What is not known is left out, never 0.
- `/healthz`: 200 while the process's loop turns, 503 where it has not for two minutes
  (`GPUMETER_WORKER_HEALTH_S`, `GPUMETER_SINK_HEALTH_S`). Restart it then.
- `/readyz`: 200 where it does its work in time, else 503; the JSON body of both says every reason.

| process | ready when |
|---|---|
| collector | the driver answers, a reading was taken, the broker acknowledges |
| watcher | a clock went out within the last minute, so API server and broker are there |
| worker | the group has given it partitions, the progress of each is loaded, and it has read again up to where it was |
| sink | its ledger is open and takes rows, and it is at most `GPUMETER_SINK_READY_LAG_S` behind the end of gpu-usage |

`gpumeter status --metrics HOST:PORT` reads these pages beside Kafka and the ledger.
"""


def page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for title, (settings, listed) in TABLES.items():
        head = [f"## {title}", f"Settings: {settings}.", ""] if settings else [f"## {title}"]
        parts.append(
            "\n".join([*head, "| metric | kind | labels | what |", "|---|---|---|---|", *map(_row, listed), ""])
        )
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


def main() -> int:
    """Writes the page."""
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
