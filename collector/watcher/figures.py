"""The watcher's numbers and health: which there are, and what they are now. Decides nothing but whether it is ready.

Serving is collector/metrics.py's. Tested in tests/unit/collector/test_watcher_figures.py; the table in
infra/docs/metrics.md is made from this one.
"""

from collector.clock import Clock
from collector.metrics import SENDER_METRICS, Delivery, Sender
from schemas.health import Health, judge
from schemas.metrics import COUNTER, GAUGE, Metric, Values

from .watcher import Watcher

_W = "gpumeter_watcher_"
LATE_US = 60_000_000
"""A watcher that has asserted no clock for so long is not ready: twelve ticks, and no window closes meanwhile."""

WATCHER_METRICS = (
    *SENDER_METRICS,
    Metric(f"{_W}clock_timestamp_seconds", GAUGE, "Newest clock asserted: everything up to it is out"),
    Metric(f"{_W}retries_total", COUNTER, "Ticks without a clock since the API server or the broker was away"),
    Metric(f"{_W}lists_total", COUNTER, "Whole lists asked of the API server", ("kind",)),
    Metric(f"{_W}pods", GAUGE, "Pods that are followed"),
    Metric(f"{_W}nodes", GAUGE, "Nodes that are followed"),
)


class WatcherFigures:
    """Numbers of one watcher; may be asked from another thread."""

    def __init__(self, watcher: Watcher, sender: Sender, clock: Clock) -> None:
        self._watcher, self._clock = watcher, clock
        self._delivery = Delivery(sender)

    def values(self) -> Values:
        """The numbers as the table names them."""
        watcher = self._watcher
        clock: dict[tuple[str, ...], float] = {(): watcher.asserted_us / 1e6} if watcher.asserted_us else {}
        return {
            **self._delivery.values(),
            f"{_W}clock_timestamp_seconds": clock,
            f"{_W}retries_total": {(): watcher.retries},
            f"{_W}lists_total": {(kind,): count for kind, count in watcher.lists.items()},
            f"{_W}pods": {(): len(watcher.pods.records)},
            f"{_W}nodes": {(): len(watcher.nodes.records)},
        }

    def health(self) -> Health:
        """Ready while the clock goes out: that alone says that API server and broker are there."""
        behind_us = self._clock.event_us() - self._watcher.asserted_us
        reasons = []
        if not self._watcher.asserted_us:
            reasons = ["no clock was asserted yet"]
        elif behind_us > LATE_US:
            reasons = [f"the last clock was asserted {behind_us // 1_000_000} s ago"]
        age_us = self._clock.monotonic_us() - self._watcher.turned_us
        return judge("watcher", max(0, age_us) / 1e6, reasons)
