"""The jobs' page of metrics and health, and the reader of such a page. The only importer of prometheus_client here.

Decides nothing: the tables say which metrics there are, figures.py and sink_figures.py what they are now. Knows no
process. Tested in tests/unit/stream_jobs/test_metrics.py.
"""

import importlib.metadata
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector, CollectorRegistry

from schemas.health import Health, answer
from schemas.metrics import COUNTER, Values, page_rows
from schemas.metrics import Metric as Listed

_STATUS = {200: "200 OK", 503: "503 Service Unavailable"}


class Page(Collector):
    """What a scrape gives: the listed metrics with the values of now."""

    def __init__(self, listed: Sequence[Listed], read: Callable[[], Values], health: Callable[[], Health]) -> None:
        self._listed, self._read, self._health = listed, read, health
        self._version = importlib.metadata.version("gpumeter")

    def collect(self) -> Iterable[Metric]:
        """Families in the order of the table; KeyError where a value has no row in it."""
        for metric, samples in page_rows(self._listed, self._read(), self._health(), self._version):
            family = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            shown = family(metric.name, metric.help, labels=metric.labels)
            for labels, number in samples:
                shown.add_metric(labels, number)
            yield shown


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Keeps scrapes and probes out of stderr."""


def serve(address: str, port: int, page: Page, health: Callable[[], Health]) -> None:
    """Answers /metrics, /healthz and /readyz from threads of its own; OSError where the port is taken."""
    registry = CollectorRegistry()
    registry.register(page)
    metrics = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        told = answer(environ["PATH_INFO"], health())
        if told is None:
            return metrics(environ, start_response)  # type: ignore[no-any-return]
        start_response(_STATUS[told[0]], [("Content-Type", "application/json")])
        return [told[1]]

    server = make_server(address, port, app, ThreadingWSGIServer, handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def parse(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples of a page by name and values of labels, these in the order of their names; ValueError where torn."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found
