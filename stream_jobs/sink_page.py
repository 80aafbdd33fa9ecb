"""The sink's page of metrics and health, there from before its ledger is open.

Shell around sink_figures.py; decides nothing. Tested in tests/integration/test_eyes_sink.py.
"""

from dataclasses import asdict, replace

from schemas.health import Health, judge
from schemas.metrics import Values

from .clock import monotonic_s, wall_us
from .live_sink import LiveCounts
from .metrics import Page, serve
from .sink import Sink
from .sink_figures import SINK_METRICS, SinkView, sink_not_ready, sink_values


class SinkPage:
    """Answers for a sink that may not be there yet."""

    def __init__(self, *, health_s: float, ready_lag_s: float) -> None:
        self._health_s, self._ready_lag_s = health_s, ready_lag_s
        self._begun_s = monotonic_s()
        self._sink: Sink | None = None
        self._live: LiveCounts | None = None

    def serve(self, address: str, port: int) -> None:
        """Answers at an address from now on; OSError where the port is taken."""
        serve(address, port, Page(SINK_METRICS, self.values, self.health), self.health)

    def attach(self, sink: Sink, live: LiveCounts | None = None) -> None:
        """Names the sink and what it counts of provisional rows, once its ledger is open."""
        self._sink, self._live = sink, live

    def values(self) -> Values:
        """Its metrics of now."""
        return sink_values(self._view(), wall_us())

    def health(self) -> Health:
        """Its health of now."""
        turned_s = self._sink.turned_s if self._sink else self._begun_s
        reasons = sink_not_ready(self._view(), wall_us(), self._ready_lag_s)
        return judge("sink", monotonic_s() - turned_s, reasons, self._health_s)

    def _view(self) -> SinkView:
        if self._sink is None:
            return SinkView(state="starting: the ledger is not open yet")
        return replace(self._sink.view(), live=asdict(self._live) if self._live else {})
