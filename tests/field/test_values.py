"""F. Values of NVML."""

from tests.field.gpu import SECOND, Load
from tests.field.node import Node, cgroup

ZOMBIE = (50554, 217144956601725, 37100, 0, 0, 0)


def pod_on(node: Node, memory_mib: int | None = 100) -> None:
    """A pod with the whole GPU and a process, half busy."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"), memory_mib=memory_mib)
    node[0].loads = [Load(10, 50)]


def test_field_case_39_samples_of_other_times_for_each_process(node: Node) -> None:
    """Seven processes whose newest samples lie up to nine seconds apart are all metered (go-nvml#51)."""
    for n in range(7):
        node.pod(f"p{n}")
        node.process(10 + n, cgroup(f"p{n}"))
        node[0].loads += [Load(10 + n, 100, at, at + 1) for at in range(n, 180, 10)]
    rows = node.run()
    used = [rows.of(f"p{n}", 60).sum("used_us") for n in range(7)]
    assert used == [6 * SECOND] * 7
    assert rows.of("unattributed", 60).sum("used_us") == 0


def test_field_case_40_zombie_rows(node: Node) -> None:
    """A row of 37100 points of a process that is gone, and 94 of zeros, are refused and change nothing (nvtop#110)."""
    pod_on(node)
    node[0].extra_rows = [ZOMBIE, *[(0, 0, 0, 0, 0, 0)] * 94]
    rows = node.run()
    assert rows.of("a", 60).sum("used_us") == 30 * SECOND and rows.holders(60) == {"a"}


def test_field_case_42_not_found_is_idle(node: Node) -> None:
    """NOT_FOUND beside samples of the device is no error and no use: the pod is idle (nvml-wrapper#56, go-nvml#11)."""
    pod_on(node)
    node[0].loads = []
    (row,) = node.run().of("a", 60)
    assert (row["used_us"], row["observed_us"], row["basis"]) == (0, 60 * SECOND, "sampled") and not row["flags"]


def test_field_case_42_not_supported_is_unknown(node: Node) -> None:
    """NOT_SUPPORTED for processes is not idle: what the pod used is not known (nvml.h)."""
    pod_on(node)
    node.library.codes["nvmlDeviceGetProcessUtilization"] = 3
    (row,) = node.run().of("a", 60)
    assert row["used_us"] is None and "not_supported" in row["flags"]


def test_field_case_43_lists_of_driver_535(node: Node) -> None:
    """Lists of drivers with another struct under the same name are not read: memory is unknown (go-nvml#75)."""
    pod_on(node)
    node.library.driver_version = "535.54.03"
    (row,) = node.run().of("a", 60)
    assert row["used_us"] == 30 * SECOND and not row["memory_byte_ms"]


def test_field_case_44_device_without_memory_figures(node: Node) -> None:
    """A GB10 tells no device memory but each process's, which counts (nvitop PR#208)."""
    pod_on(node, memory_mib=19135)
    node.library.codes |= {"nvmlDeviceGetMemoryInfo": 3, "nvmlDeviceGetMemoryInfo_v2": 3}
    (row,) = node.run().of("a", 60)
    assert row["memory_byte_ms"] == (19135 << 20) * 60_000 and row["used_us"] == 30 * SECOND


def test_field_case_44_memory_that_is_not_available(node: Node) -> None:
    """Memory of all ones is unknown, not 16 EiB and not 0 (nvitop)."""
    pod_on(node, memory_mib=None)
    (row,) = node.run().of("a", 60)
    assert row["memory_byte_ms"] is None and "memory_partial" in row["flags"]


def test_field_case_46_pid_used_again_by_another_pod(node: Node) -> None:
    """A pid that another pod's process gets has its old use on the old pod (nvitop#152)."""
    pod_on(node)
    node.pod("b", start_s=90, seen_s=91)
    node[0].loads = [Load(10, 100, 0, 90), Load(10, 50, 100)]

    def again() -> None:
        node.gone(10)
        node.granted.clear()
        node.process(10, cgroup("b"), start_s=95)

    node.at[93] = again
    rows = node.run()
    assert abs(rows.of("a", 60).sum("used_us") - 30 * SECOND) <= 200_000
    assert abs(rows.of("b", 60).sum("used_us") - 10 * SECOND) <= 200_000
