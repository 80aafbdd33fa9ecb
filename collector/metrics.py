"""What the node agent says about itself: plain numbers, and the only importer of prometheus_client in this folder.

The numbers cost nothing; the library (4 MiB) is loaded only where they are served. Decides nothing. Tested in
tests/unit/collector/test_metrics.py.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

ADDRESS = "127.0.0.1"
OUTCOMES = ("acknowledged", "dropped", "failed")


class AgentMetrics:
    """Numbers of one agent; `messages` gives the outlet's counts by name."""

    def __init__(self, messages: Callable[[str], int] = lambda outcome: 0) -> None:
        self.readings = 0
        self.reading_us = 0
        self.answers: Counter[tuple[str, int]] = Counter()
        self.refused_rows = 0
        self.snapshots = 0
        self.grants_known = False
        self.driver_ready = False
        self._messages = messages

    def serve(self, port: int) -> None:
        """Serves the metrics on 127.0.0.1; 0: not at all."""
        if port == 0:
            return
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(self)
        start_http_server(port, ADDRESS, registry)

    def collect(self) -> "Iterator[Metric]":
        """The numbers as Prometheus takes them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

        yield SummaryMetricFamily(
            "gpumeter_reading_seconds", "Duration of a reading", self.readings, self.reading_us / 1e6
        )
        answers = CounterMetricFamily("gpumeter_driver_answers", "Calls that did not answer 0", labels=["call", "code"])
        for (call, code), count in sorted(self.answers.items()):
            answers.add_metric([call, str(code)], count)
        yield answers
        yield CounterMetricFamily("gpumeter_refused_rows", "Rows of the driver that cannot be true", self.refused_rows)
        yield CounterMetricFamily("gpumeter_snapshots", "Snapshots of who is who", self.snapshots)
        messages = CounterMetricFamily("gpumeter_messages", "Messages by what became of them", labels=["outcome"])
        for outcome in OUTCOMES:
            messages.add_metric([outcome], self._messages(outcome))
        yield messages
        yield CounterMetricFamily("gpumeter_spool_gaps", "Gaps told where messages were lost", self._messages("gaps"))
        yield CounterMetricFamily("gpumeter_spool_faults", "Times the disk failed", self._messages("faults"))
        yield CounterMetricFamily("gpumeter_spool_syncs", "Times the spool was synced", self._messages("syncs"))
        yield GaugeMetricFamily("gpumeter_spool_bytes", "Bytes in the spool", self._messages("held_bytes"))
        yield GaugeMetricFamily("gpumeter_spool_on_disk", "0 where only memory holds", self._messages("on_disk"))
        yield GaugeMetricFamily("gpumeter_grants_known", "1 where the kubelet answered last", int(self.grants_known))
        yield GaugeMetricFamily("gpumeter_driver_ready", "1 where the driver answered last", int(self.driver_ready))
