"""What the watcher says about itself."""

from types import SimpleNamespace
from typing import Any

from collector.watcher.figures import WATCHER_METRICS, WatcherFigures

S = 1_000_000
NOW_US = 1_790_000_000 * S


class _Clock:
    def event_us(self) -> int:
        """A fixed time."""
        return NOW_US

    def monotonic_us(self) -> int:
        """A fixed boot time."""
        return 500 * S

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Never waits."""
        return False


def _figures(asserted_us: int, turned_us: int = 499 * S) -> WatcherFigures:
    watcher: Any = SimpleNamespace(
        asserted_us=asserted_us, turned_us=turned_us, retries=2, lists={"pods": 1, "nodes": 1},
        pods=SimpleNamespace(records={"a": 1, "b": 2}), nodes=SimpleNamespace(records={}),
    )  # fmt: skip
    sender: Any = SimpleNamespace(acknowledged=3, dropped=0, failed=0, waiting=0)
    return WatcherFigures(watcher, sender, _Clock())


def test_watcher_is_ready_while_its_clock_goes_out() -> None:
    """Ready with a clock of the last minute; before the first and after a minute without, it says why not."""
    assert _figures(NOW_US - 60 * S).health().ready
    assert _figures(NOW_US - 61 * S).health().reasons == ["the last clock was asserted 61 s ago"]
    assert _figures(0).health().reasons == ["no clock was asserted yet"]


def test_watcher_whose_loop_stands_is_unhealthy() -> None:
    """A tick that has hung for more than two minutes is not healthy."""
    assert _figures(NOW_US, turned_us=380 * S).health().healthy
    assert not _figures(NOW_US, turned_us=379 * S).health().healthy


def test_watcher_numbers_are_listed() -> None:
    """Every number is in the table, a clock that was never asserted is left out."""
    values = _figures(0).values()
    assert values.keys() <= {metric.name for metric in WATCHER_METRICS}
    assert values["gpumeter_watcher_clock_timestamp_seconds"] == {}
    assert values["gpumeter_watcher_pods"] == {(): 2}
    assert values["gpumeter_messages_total"][("acknowledged",)] == 3
