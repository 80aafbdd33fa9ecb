"""The jobs' page, over a real socket."""

from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

from infra.broker.ports import free_ports
from schemas.health import decode_health, judge
from schemas.metrics import COUNTER, GAUGE, Metric
from stream_jobs.metrics import Page, parse, serve

LISTED = (
    Metric("gpumeter_x_rows_total", COUNTER, "Rows", ("partition",)),
    Metric("gpumeter_x_age_seconds", GAUGE, "A"),
)


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}{path}", timeout=5) as got:
            return got.status, got.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_page_shows_what_the_table_lists() -> None:
    """Every value appears under its name and labels, an unknown one not at all, and health beside them."""
    health = judge("worker", 0.5, ["behind"])
    read = lambda: {"gpumeter_x_rows_total": {("0",): 5, ("3",): 7}}  # noqa: E731
    (port,) = free_ports(1)
    serve("127.0.0.1", port, Page(LISTED, read, lambda: health), lambda: health)
    status, text = _get(port, "/metrics")
    assert status == 200
    found = parse(text)
    assert found["gpumeter_x_rows_total"] == {("0",): 5.0, ("3",): 7.0}
    assert "gpumeter_x_age_seconds" not in found
    assert (found["gpumeter_healthy"], found["gpumeter_ready"]) == ({(): 1.0}, {(): 0.0})
    assert found["gpumeter_loop_age_seconds"] == {(): 0.5}
    assert [labels[0] for labels in found["gpumeter_build_info"]] == ["worker"]
    assert (_get(port, "/healthz")[0], _get(port, "/readyz")[0]) == (200, 503)
    assert decode_health(_get(port, "/readyz")[1].encode()) == health


def test_value_without_a_row_is_a_defect() -> None:
    """A number that no table lists fails the scrape instead of being shown without documentation."""
    page = Page(LISTED, lambda: {"gpumeter_x_unknown": {(): 1}}, lambda: judge("worker", 0, []))
    with pytest.raises(KeyError, match="gpumeter_x_unknown"):
        list(page.collect())
