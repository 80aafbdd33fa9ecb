"""G. Lifecycle, staleness, short pods."""

from tests.field.gpu import SECOND, Load
from tests.field.node import Node, cgroup


def test_field_case_48_terminated_pod_is_still_listed(node: Node) -> None:
    """A GPU listed under a pod that ended and one that runs is held by the one that runs (kubernetes#119423)."""
    node.pod("a", end_s=0, seen_s=1)
    node.pod("b", start_s=0, seen_s=1)
    node.grant("a", "GPU-0")
    node.grant("b", "GPU-0")
    node.process(10, cgroup("b"))
    node[0].loads = [Load(10, 50)]
    rows = node.run()
    assert rows.holders(60) == {"b"} and rows.of("b", 60).sum("held_us") == 60 * SECOND


def test_field_case_49_old_and_new_holder_overlap(node: Node) -> None:
    """A pod that terminates beside its successor on a GPU holds it until it ends (k8s-device-plugin#290)."""
    node.pod("a", end_s=90, seen_s=91)
    node.pod("b", start_s=90, seen_s=91)
    node.grant("a", "GPU-0")
    node.at[60] = lambda: node.grant("b", "GPU-0")
    rows = node.run()
    held = {pod: rows.of(pod, 60).sum("held_us") for pod in "ab"}
    assert held == {"a": 30 * SECOND, "b": 30 * SECOND}


def test_field_case_50_init_container_without_a_grant(node: Node) -> None:
    """An init container on a GPU, which PodResources never shows, is metered by its process (kubernetes#120501)."""
    node.pod("a", containers=("init", "main"), kinds={"init": "init"})
    node.process(10, cgroup("a", "init"))
    node[0].loads = [Load(10, 50)]
    (row,) = node.run().of("a", 60)
    assert (row["container_name"], row["used_us"]) == ("init", 30 * SECOND) and "grant_missing" in row["flags"]


def test_field_case_51_two_containers_of_a_pod(node: Node) -> None:
    """Two containers of a pod on one GPU have rows of their own (HAMi#863)."""
    node.capacity = {"GPU-0": 2}
    node.pod("a", containers=("main", "side"))
    node.grant("a", "GPU-0::0")
    node.grant("a", "GPU-0::1", container="side")
    node.process(10, cgroup("a"))
    node.process(11, cgroup("a", "side"))
    node[0].loads = [Load(10, 50), Load(11, 25)]
    rows = {row["container_name"]: (row["used_us"], row["charged_us"]) for row in node.run().of("a", 60)}
    assert rows == {"main": (30 * SECOND, 37_500_000), "side": (15 * SECOND, 22_500_000)}


def test_field_case_53_pod_of_four_seconds(node: Node) -> None:
    """A pod that lived four seconds between two readings has four seconds (kubefin#47, splunk-connect#341)."""
    node.pod("a", start_s=66, end_s=70, seen_s=75)
    node.at[66] = lambda: (node.process(10, cgroup("a"), start_s=66), node.grant("a", "GPU-0"))
    node.at[70] = lambda: node.gone(10)
    node[0].loads = [Load(10, 100, 66, 70)]
    (row,) = node.run().of("a", 60)
    assert (row["used_us"], row["held_us"]) == (4 * SECOND, 4 * SECOND)


def test_field_case_54_mapping_comes_late(node: Node) -> None:
    """What was read before the pod was known is the pod's all the same (dcgm-exporter#342, #428)."""
    node.pod("a", seen_s=25)
    node.at[20] = lambda: node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 50)]
    rows = node.run()
    assert rows.of("a", 0).sum("used_us") == 30 * SECOND and not rows.of("unattributed", 0)
