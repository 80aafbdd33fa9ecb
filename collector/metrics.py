"""What agent and watcher say about themselves: plain numbers, health, and the page of both.

The only importer of prometheus_client in this folder. The numbers cost nothing; library and web server (8 MiB) are
loaded only where they are served. Decides nothing but whether the process is ready. Tested in
tests/unit/collector/test_metrics.py; the table in infra/docs/metrics.md is made from these.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from schemas.health import Health, answer, judge
from schemas.metrics import COUNTER, GAUGE, Metric, Values, page_rows

from .clock import Clock

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

OUTCOMES = ("acknowledged", "dropped", "failed")
UNACKNOWLEDGED_US = 60_000_000
"""Messages wait and the broker has acknowledged none for so long: it is taken for away."""
_STATUS = {200: "200 OK", 503: "503 Service Unavailable"}
_C = "gpumeter_collector_"

SENDER_METRICS = (
    Metric("gpumeter_messages_total", COUNTER, "Messages by what became of them", ("outcome",)),
    Metric("gpumeter_queued_messages", GAUGE, "Messages that the broker has not acknowledged yet"),
)
"""Of agent and watcher alike."""

COLLECTOR_METRICS = (
    *SENDER_METRICS,
    Metric(f"{_C}readings_total", COUNTER, "Readings of all devices"),
    Metric(f"{_C}reading_seconds_total", COUNTER, "Time spent on readings"),
    Metric(f"{_C}driver_answers_total", COUNTER, "Calls that did not answer 0", ("call", "code")),
    Metric(f"{_C}refused_rows_total", COUNTER, "Rows of the driver that cannot be true"),
    Metric(f"{_C}snapshots_total", COUNTER, "Snapshots of who is who"),
    Metric(f"{_C}spool_gaps_total", COUNTER, "Gaps told where messages were lost"),
    Metric(f"{_C}spool_faults_total", COUNTER, "Times that the spool's disk failed"),
    Metric(f"{_C}spool_syncs_total", COUNTER, "Times that the spool was synced"),
    Metric(f"{_C}spool_bytes", GAUGE, "Bytes in the spool, on disk and in memory"),
    Metric(f"{_C}spool_on_disk", GAUGE, "0 where messages wait in memory only"),
    Metric(f"{_C}grants_known", GAUGE, "1 where the kubelet answered last"),
    Metric(f"{_C}driver_ready", GAUGE, "1 where the driver answered last"),
)


class Sender(Protocol):
    """What the numbers need of a producer (publish.Publisher, spool.Spool)."""

    @property
    def acknowledged(self) -> int:
        """Messages that the broker has."""

    @property
    def dropped(self) -> int:
        """Messages that were lost here."""

    @property
    def failed(self) -> int:
        """Times that the broker refused a message."""

    @property
    def waiting(self) -> int:
        """Messages not acknowledged yet."""


class Holder(Sender, Protocol):
    """A sender that holds what the broker has not (spool.Spool)."""

    @property
    def gaps(self) -> int:
        """Gaps told."""

    @property
    def faults(self) -> int:
        """Times that the disk failed."""

    @property
    def syncs(self) -> int:
        """Times that files were synced."""

    @property
    def held_bytes(self) -> int:
        """Bytes on disk and in memory."""

    @property
    def on_disk(self) -> bool:
        """Whether messages go to disk."""


class Delivery:
    """How the messages fare: counts, and since when nothing was acknowledged although messages wait."""

    def __init__(self, sender: Sender | None) -> None:
        self._sender = sender
        self._acknowledged = 0
        self._moved_us: int | None = None

    def look(self, now_us: int) -> None:
        """Notes progress; called at each turn of the loop."""
        if self._sender is None:
            return
        if self._moved_us is None or self._sender.acknowledged != self._acknowledged or not self._sender.waiting:
            self._acknowledged, self._moved_us = self._sender.acknowledged, now_us

    def unready(self, now_us: int) -> list[str]:
        """What keeps the process from being ready."""
        if self._sender is None:
            return []
        if not self._sender.acknowledged:
            return ["the broker has acknowledged nothing yet"]
        since_us = now_us - (now_us if self._moved_us is None else self._moved_us)
        if self._sender.waiting and since_us > UNACKNOWLEDGED_US:
            return [f"{self._sender.waiting} messages wait, none was acknowledged for {since_us // 1_000_000} s"]
        return []

    def values(self) -> Values:
        """Numbers of SENDER_METRICS."""
        if self._sender is None:
            return {}
        return {
            "gpumeter_messages_total": {(outcome,): getattr(self._sender, outcome) for outcome in OUTCOMES},
            "gpumeter_queued_messages": {(): self._sender.waiting},
        }


class AgentMetrics:
    """Numbers of one agent."""

    def __init__(self, sender: Holder | None = None) -> None:
        self.readings = 0
        self.reading_us = 0
        self.answers: Counter[tuple[str, int]] = Counter()
        self.refused_rows = 0
        self.snapshots = 0
        self.grants_known = False
        self.driver_ready = False
        self._turned_us: int | None = None
        self._spool, self._delivery = sender, Delivery(sender)

    def turned(self, now_us: int) -> None:
        """Notes a turn of the loop, boot-time clock."""
        self._turned_us = now_us
        self._delivery.look(now_us)

    def values(self) -> Values:
        """The numbers as the table names them."""
        return {
            **self._delivery.values(),
            **self._spool_values(),
            f"{_C}readings_total": {(): self.readings},
            f"{_C}reading_seconds_total": {(): self.reading_us / 1e6},
            f"{_C}driver_answers_total": {(call, str(code)): n for (call, code), n in list(self.answers.items())},
            f"{_C}refused_rows_total": {(): self.refused_rows},
            f"{_C}snapshots_total": {(): self.snapshots},
            f"{_C}grants_known": {(): int(self.grants_known)},
            f"{_C}driver_ready": {(): int(self.driver_ready)},
        }

    def _spool_values(self) -> Values:
        if self._spool is None:
            return {}
        numbers = {
            "spool_gaps_total": self._spool.gaps,
            "spool_faults_total": self._spool.faults,
            "spool_syncs_total": self._spool.syncs,
            "spool_bytes": self._spool.held_bytes,
            "spool_on_disk": int(self._spool.on_disk),
        }
        return {f"{_C}{name}": {(): number} for name, number in numbers.items()}

    def health(self, now_us: int) -> Health:
        """Ready once the driver answers, a reading was taken and the broker acknowledges."""
        reasons = [] if self.driver_ready else ["the driver does not answer"]
        reasons += [] if self.readings else ["no reading yet"]
        turned_us = now_us if self._turned_us is None else self._turned_us
        return judge("collector", (now_us - turned_us) / 1e6, [*reasons, *self._delivery.unready(now_us)])


class Page:
    """What a scrape gives; the jobs' page has the same form."""

    def __init__(self, listed: Sequence[Metric], read: Callable[[], Values], health: Callable[[], Health]) -> None:
        import importlib.metadata

        self._listed, self._read, self._health = listed, read, health
        self._version = importlib.metadata.version("gpumeter")

    def collect(self) -> "Iterator[Family]":
        """Families in the order of the table; KeyError where a value has no row in it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric, samples in page_rows(self._listed, self._read(), self._health(), self._version):
            family = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            shown = family(metric.name, metric.help, labels=metric.labels)
            for labels, number in samples:
                shown.add_metric(labels, number)
            yield shown


def serve(
    address: str,
    port: int,
    listed: Sequence[Metric],
    read: Callable[[], Values],
    health: Callable[[], Health],
) -> None:
    """Answers /metrics, /healthz and /readyz from threads of its own; OSError where the port is taken."""
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from prometheus_client import CollectorRegistry, make_wsgi_app
    from prometheus_client.exposition import ThreadingWSGIServer

    class _Quiet(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Keeps scrapes and probes out of stderr."""

    registry = CollectorRegistry()
    registry.register(Page(listed, read, health))
    metrics = make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        told = answer(environ["PATH_INFO"], health())
        if told is None:
            return metrics(environ, start_response)
        start_response(_STATUS[told[0]], [("Content-Type", "application/json")])
        return [told[1]]

    server = make_server(address, port, app, ThreadingWSGIServer, handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def serve_agent(address: str, port: int, metrics: AgentMetrics, clock: Clock) -> None:
    """The agent's page; port 0: none."""
    if port:
        serve(address, port, COLLECTOR_METRICS, metrics.values, lambda: metrics.health(clock.monotonic_us()))
