"""The plan between catalogue and broker."""

from dataclasses import replace

from infra.broker.plan import Live, Wanted, plan, wanted_topics
from schemas.catalogue import load_catalogue
from schemas.names import DEAD_LETTERS, GPU_SAMPLES

WANTED = {"a": Wanted(4, 3, {"retention.ms": "7"})}
EQUAL = {"a": Live(4, 3, {"retention.ms": "7", "segment.bytes": "9"})}


def test_plan_of_equal_topics_is_empty() -> None:
    """Topics that are as wanted need nothing, whatever else is set on them."""
    assert plan(WANTED, EQUAL) == []


def test_plan_creates_what_is_missing() -> None:
    """A topic that is not there is created."""
    assert [(c.topic, c.kind) for c in plan(WANTED, {})] == [("a", "create")]


def test_plan_never_changes_partitions() -> None:
    """Fewer or more partitions than wanted is refused, with both counts in the reason."""
    for count in (3, 5):
        (change,) = plan(WANTED, {"a": replace(EQUAL["a"], partitions=count)})
        assert change.kind == "refused"
        assert f"has {count} partitions, wanted 4" in change.text


def test_plan_names_setting_and_both_values() -> None:
    """A setting that differs is named with what it is and what it shall be."""
    (change,) = plan(WANTED, {"a": replace(EQUAL["a"], config={"retention.ms": "8"})})
    assert (change.kind, change.text) == ("configure", "retention.ms is 8, wanted 7")


def test_wanted_partitions_count_for_alike_topics_only() -> None:
    """The override changes topics that are partitioned alike and no other; one broker means one replica."""
    wanted = wanted_topics(load_catalogue(), partitions=3, replication=None, brokers=1)
    assert wanted[GPU_SAMPLES].partitions == 3
    assert wanted[DEAD_LETTERS].partitions == load_catalogue()[DEAD_LETTERS].partitions
    assert {(w.replication, w.config["min.insync.replicas"]) for w in wanted.values()} == {(1, "1")}
