"""H and I. Cost, health, driver, counters."""

from collections.abc import Callable

import pytest

from collector.driver import Driver
from collector.errors import Stop
from tests.field.gpu import SECOND, Load
from tests.field.node import Node, cgroup


def test_field_case_57_capacity_of_0_with_a_plugin_of_other_names(node: Node) -> None:
    """A node that offers no nvidia.com/gpu and holds pods of another resource has no negative idle (kubecost#1978)."""
    node.labels({}, {"nvidia.com/gpu": 0, "k8s.amazonaws.com/vgpu": 4})
    node.capacity = {"GPU-0": 4}
    for n, pod in enumerate("ab"):
        node.pod(pod)
        node.grant(pod, f"GPU-0::{n}", resource="k8s.amazonaws.com/vgpu")
        node.process(10 + n, cgroup(pod))
    node[0].loads = [Load(10, 90)]
    rows = node.run()
    assert rows.of("unallocated", 60).sum("charged_us") == pytest.approx(3 * SECOND, abs=300_000)
    assert [rows.of(pod, 60).sum("held_us") for pod in "ab"] == [15 * SECOND] * 2


def test_field_case_58_replicas_do_not_multiply_a_board(node: Node) -> None:
    """One board that a label multiplies by four is one board: what is held sums to it (opencost#2901)."""
    node.labels({"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu": 4})
    node.capacity = {"GPU-0": 4}
    for n, pod in enumerate("abcd"):
        node.pod(pod)
        node.grant(pod, f"GPU-0::{n}")
    rows = node.run()
    assert sum(rows.of(pod, 60).sum("held_us") for pod in "abcd") == 60 * SECOND
    assert sum(rows.of(pod, 60).sum("charged_us") for pod in "abcd") == 60 * SECOND


def test_field_case_59_two_sources_of_pods(node: Node) -> None:
    """Two watchers that tell the same pod change nothing (opencost PR#2987)."""
    for second in (-30, -29):
        node.pod("a", seen_s=second)
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 50)]
    (row,) = node.run().of("a", 60)
    assert (row["used_us"], row["held_us"], row["revision"]) == (30 * SECOND, 60 * SECOND, 0)


def test_field_case_60_usage_is_not_allocation(node: Node) -> None:
    """A GPU held for a minute and busy a tenth of it: six seconds used, sixty charged, both told (opencost#3900)."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 10)]
    (row,) = node.run().of("a", 60)
    assert (row["used_us"], row["held_us"], row["charged_us"]) == (6 * SECOND, 60 * SECOND, 60 * SECOND)


def test_field_case_61_four_quarters_are_one_gpu(node: Node) -> None:
    """Four pods with a quarter each sum to the GPU, and so do three and what is left (opencost#3828, HAMi#3073)."""
    node.capacity = {"GPU-0": 4}
    for n, pod in enumerate("abcd"):
        node.pod(pod, end_s=None if pod != "d" else 120, seen_s=-30 if pod != "d" else 121)
        node.grant(pod, f"GPU-0::{n}")
        node.process(10 + n, cgroup(pod))
    node.at[120] = lambda: (node.gone(13), node.granted.pop())
    node[0].loads = [Load(10, 7), Load(11, 13)]
    rows = node.run()
    assert sum(rows.of(pod, 60).sum("charged_us") for pod in "abcd") == 60 * SECOND
    three = sum(rows.of(pod, 120).sum("charged_us") for pod in "abc")
    assert three + rows.of("unallocated", 120).sum("charged_us") == 60 * SECOND
    assert rows.of("unallocated", 120).sum("charged_us") == pytest.approx(12 * SECOND, abs=300_000)


def test_field_case_63_node_without_a_device_plugin(node: Node) -> None:
    """Where nothing offers GPUs to Kubernetes, what pods use of them is metered all the same (kubecost/docs#995)."""
    node.pod("a", requests=0)
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 50)]
    node.slots = list  # type: ignore[method-assign]
    (row,) = node.run().of("a", 60)
    assert (row["used_us"], row["charged_us"], row["flags"]) == (30 * SECOND, 30 * SECOND, ["unrequested"])


def test_field_case_65_gpu_falls_off_the_bus_and_comes_back(make_node: Callable[..., Node]) -> None:
    """Of three GPUs one is lost for half a minute while indices shift: its time is unobserved, others lose nothing."""
    node = make_node(3)
    for n, pod in enumerate("abc"):
        node.pod(pod)
        node.grant(pod, f"GPU-{n}")
        node.process(10 + n, cgroup(pod), gpu=n)
        node[n].loads = [Load(10 + n, 50)]
    lost = node[1]
    node.at = {61: lambda: node.library.gpus.remove(lost), 91: lambda: node.library.gpus.insert(1, lost)}
    rows = node.run()
    assert [rows.of(pod, 60).sum("used_us") for pod in "ac"] == [30 * SECOND] * 2
    (row,) = rows.of("b", 60)
    assert "device_lost" in row["flags"] and row["held_us"] == 60 * SECOND
    assert row["charged_us"] + rows.of("unobserved", 60, "GPU-1").sum("charged_us") == 60 * SECOND
    assert 20 * SECOND < rows.of("unobserved", 60, "GPU-1").sum("charged_us") < 35 * SECOND


def test_field_case_67_driver_replaced_under_its_library(node: Node) -> None:
    """After an upgrade of the driver only a new process helps: the agent ends and says so (gpu-operator#505)."""
    driver = Driver()
    driver.read({})
    node.library.codes = {name: 18 for name in ("nvmlDeviceGetSamples", "nvmlDeviceGetCount_v2")}
    with pytest.raises(Stop, match="started anew"):
        driver.read({"GPU-0": 1})


def test_field_case_67_counters_start_again_at_0(node: Node) -> None:
    """Energy that starts again after a reload is never negative; of that reading it is unknown (dcgm-exporter#530)."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads, node[0].watts = [Load(10, 50)], 100

    def reload() -> None:
        node[0].energy = lambda: 100 * (node.now_us - 92 * SECOND) // 1000  # type: ignore[method-assign]

    node.at[92] = reload
    rows = node.run()
    (row,) = rows.of("a", 60)
    assert 0 < row["energy_mj"] <= 5_500_000 and row["energy_observed_us"] < 60 * SECOND
    assert rows.of("a", 120).sum("energy_mj") == 6_000_000
