"""The page of metrics, and the rules for their names."""

import re

from infra.docs.metrics import PAGE, TABLES, page

METRICS = [metric for _, listed in TABLES.values() for metric in listed]


def test_page_of_metrics_is_what_the_code_says() -> None:
    """The page in the repository equals the one made from the tables; `make docs` makes it anew."""
    assert PAGE.read_text() == page(), "run `make docs`"


def test_names_follow_prometheus() -> None:
    """One prefix, base units alone, `_total` on counters and on nothing else, each name once with one meaning."""
    assert len(METRICS) > 40
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"gpumeter_[a-z][a-z0-9_]*[a-z]", metric.name)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind in ("counter", "gauge")
        assert not re.search(r"_(us|ms|micros|millis|percent|pct|kib|mib|minutes|hours)(_|$)", metric.name)
        assert metric.help and metric.help[0].isupper() | metric.help[0].isdigit() and not metric.help.endswith(".")
        assert all(re.fullmatch(r"[a-z]+", label) and label not in ("le", "quantile", "job") for label in metric.labels)
