"""The sink's numbers and readiness."""

import pytest

from stream_jobs.sink_figures import RUNNING, SINK_METRICS, SinkView, sink_not_ready, sink_values

NOW_US = 1_790_000_000_000_000


def _view(**given: object) -> SinkView:
    base = {"state": RUNNING, "done": {0: 10, 1: 4}, "ends": {0: 10, 1: 9}, "append_us": {1: NOW_US - 30_000_000}}
    return SinkView(**(base | given))  # type: ignore[arg-type]


def test_sink_near_the_end_is_ready_and_far_from_it_says_so() -> None:
    """Within the bound it is ready; beyond, it names partition, messages and seconds."""
    assert sink_not_ready(_view(), NOW_US, 30.0) == []
    assert sink_not_ready(_view(), NOW_US, 29.0) == ["gpu-usage/1: 5 messages behind the end (30 s, at most 29 s)"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"state": "waiting: ClickHouse is away"}, "waiting: ClickHouse is away"),
        ({"broker_trouble": "all brokers down"}, "broker: all brokers down"),
        ({"ends": {0: 10}}, "end of gpu-usage/1 is not known yet"),
        ({"append_us": {}}, "gpu-usage/1: 5 messages behind the end (none was taken yet)"),
    ],
)
def test_whatever_is_away_keeps_the_sink_from_being_ready(given: dict[str, object], reason: str) -> None:
    """A ledger, a broker or an end that is not known, and a topic not begun, are each a reason of their own."""
    assert sink_not_ready(_view(**given), NOW_US, 60.0) == [reason]


def test_sink_values_are_listed_and_unknown_is_left_out() -> None:
    """Each number is in the table; a partition of which nothing was taken has no age."""
    view = _view(append_us={}, counts={"rows": 3}, letters={"decode": 2}, buffered=4)
    values = sink_values(view, NOW_US)
    assert values.keys() <= {metric.name for metric in SINK_METRICS}
    assert values["gpumeter_sink_lag_records"] == {("0",): 0, ("1",): 5}
    assert values["gpumeter_sink_lag_seconds"] == {("0",): 0.0}
    assert values["gpumeter_sink_dead_letters_total"] == {("decode",): 2}
    assert (values["gpumeter_sink_rows_total"], values["gpumeter_sink_waiting"]) == ({(): 3}, {(): 0})
