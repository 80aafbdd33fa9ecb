"""What the watcher remembers, publishes and forgets."""

import msgspec

from collector.watcher.api_objects import Pod
from collector.watcher.tables import pod_table


def _pod(uid: str, node: str = "n1", phase: str = "Running") -> Pod:
    meta = {"name": "p", "namespace": "n", "uid": uid}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)


def test_table_gives_each_change_once() -> None:
    """A record is to be published when it is new or different, and not again after that."""
    table = pod_table()
    table.seen(_pod("a"), 1)
    table.seen(_pod("b"), 1)
    assert [record.uid for record in table.take_changed()] == ["a", "b"]
    table.acknowledged()
    table.seen(_pod("a"), 2)
    table.seen(_pod("b", phase="Failed"), 2)
    assert [record.uid for record in table.take_changed()] == ["b"]


def test_table_gives_doubtful_records_again() -> None:
    """What may have been lost on the way is to be published again."""
    table = pod_table()
    table.seen(_pod("a"), 1)
    table.take_changed()
    table.doubtful()
    assert [record.uid for record in table.take_changed()] == ["a"]


def test_table_forgets_a_deletion_only_when_acknowledged() -> None:
    """A deleted pod is remembered until its deletion is acknowledged."""
    table = pod_table()
    table.seen(_pod("a"), 1)
    table.gone(_pod("a"), 5)
    assert [record.deleted_us for record in table.take_changed()] == [5]
    table.doubtful()
    assert [record.deleted_us for record in table.take_changed()] == [5]
    table.acknowledged()
    assert table.records == {}


def test_table_keeps_what_changed_while_on_the_way() -> None:
    """A deletion seen while an older state is on the way is not taken for acknowledged."""
    table = pod_table()
    table.seen(_pod("a"), 1)
    table.take_changed()
    table.gone(_pod("a"), 5)
    table.acknowledged()
    assert [record.deleted_us for record in table.take_changed()] == [5]


def test_table_deletes_what_a_list_lacks() -> None:
    """After a list, what is not in it is deleted at that time; what was deleted before keeps its time."""
    table = pod_table()
    for uid in "abc":
        table.seen(_pod(uid), 1)
    table.gone(_pod("c"), 2)
    table.listed({"a"}, 9)
    assert {uid: record.deleted_us for uid, record in table.records.items()} == {"a": None, "b": 9, "c": 2}


def test_table_ignores_pods_without_a_node() -> None:
    """A pod that is not placed yet has no record."""
    table = pod_table()
    table.seen(_pod("a", node=""), 1)
    table.gone(_pod("b", node=""), 1)
    assert table.take_changed() == []
