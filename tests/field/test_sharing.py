"""A. Sharing, duplicates, sums above 100 %."""

from tests.field.gpu import SECOND, Load
from tests.field.node import Node, cgroup
from tests.field.rows import rows_of


def share(node: Node, *pods: str, slots: int) -> None:
    """Each pod gets one of so many replicas of the GPU and has a process with a context, from pid 10 on."""
    node.capacity = {"GPU-0": slots}
    for n, pod in enumerate(pods):
        node.pod(pod)
        node.grant(pod, f"GPU-0::{n}", resource="nvidia.com/gpu.shared")
        node.process(10 + n, cgroup(pod))


def test_field_case_01_renamed_resource(node: Node) -> None:
    """A pod whose resource is called nvidia.com/gpu.shared has its rows like any other (dcgm-exporter#151)."""
    share(node, "a", slots=4)
    node[0].loads = [Load(10, 50)]
    pod = node.run().of("a", 60)
    assert (pod.sum("used_us"), pod.sum("held_us")) == (30 * SECOND, 15 * SECOND)


def test_field_case_02_replica_suffix(node: Node) -> None:
    """A slot GPU-x::1 is a slot of GPU-x, whose rows name the GPU as NVML does (dcgm-exporter#201)."""
    node.capacity = {"GPU-0": 2}
    node.pod("a")
    node.grant("a", "GPU-0::1")
    rows = node.run()
    assert {row["gpu_uuid"] for row in rows} == {"GPU-0"}
    assert rows.of("a", 60).sum("held_us") == 30 * SECOND


def test_field_case_04_device_figure_copied_to_each_pod(node: Node) -> None:
    """Three pods on a GPU that is busy 71 % and names nobody: 71 % in all, of nobody, not 214 % (dcgm-exporter#587)."""
    share(node, "a", "b", "c", slots=3)
    node[0].loads, node[0].names_processes = [Load(10, 71)], False
    rows = [row for row in node.run() if row["at"] == 60]
    assert sum(row["used_us"] for row in rows) == 42_600_000
    assert all(row["flags"] == ["used_partial"] for row in rows if row["pod_name"])
    assert [row["holder_kind"] for row in rows if row["used_us"]] == ["unattributed"]


def test_field_case_05_board_power_copied_to_each_pod(node: Node) -> None:
    """Four pods on a board of 60 W get 3,600 J a minute together, by what they are charged (dcgm-exporter#582)."""
    share(node, "a", "b", "c", "d", slots=4)
    node[0].loads, node[0].watts = [Load(10, 60), Load(11, 20)], 60
    rows = node.run()
    joules = {pod: rows.of(pod, 60).sum("energy_mj") // 1000 for pod in "abcd"}
    assert sum(row["energy_mj"] for row in rows if row["at"] == 60) == 3_600_000
    assert joules == {"a": 2340, "b": 900, "c": 180, "d": 180}


def test_field_case_06_one_of_two_pods_works(node: Node) -> None:
    """Of two pods under time-slicing the one that runs kernels has all use (dcgm-exporter#642)."""
    share(node, "a", "b", slots=2)
    node[0].loads = [Load(10, 80)]
    rows = node.run()
    assert (rows.of("a", 60).sum("used_us"), rows.of("b", 60).sum("used_us")) == (48 * SECOND, 0)


def test_field_case_07_memory_repeated_per_slot(node: Node) -> None:
    """A process of 10,056 MiB in a container with two of 48 slots has its memory and use once (dcgm-exporter#725)."""
    node.capacity = {"GPU-0": 48}
    node.pod("a", requests=2)
    node.grant("a", "GPU-0::5", "GPU-0::19")
    node.process(10, cgroup("a"), memory_mib=10056)
    node[0].loads = [Load(10, 50)]
    (pod,) = node.run().of("a", 60)
    assert pod["memory_byte_ms"] == (10056 << 20) * 60_000
    assert (pod["used_us"], pod["held_us"]) == (30 * SECOND, 2_500_000)


def test_field_case_09_utilisation_above_100(node: Node) -> None:
    """A row of 137 is refused and counted; nobody is used above the device (HAMi#555)."""
    share(node, "a", slots=1)
    node[0].loads, node[0].names_processes = [Load(10, 50)], False
    for second in range(180):
        node.at[second] = lambda: node[0].extra_rows.__setitem__(slice(None), [(10, node.event_us(), 137, 0, 0, 0)])
    rows = node.run()
    assert sum(row["used_us"] for row in rows if row["at"] == 60) == 30 * SECOND
    assert rows.of("unattributed", 60).sum("used_us") == 30 * SECOND
    assert rows.of("a", 60).flags() == {"used_partial"} and node.metrics.refused_rows > 10


def test_field_case_10_processes_not_found_on_a_busy_device(node: Node) -> None:
    """A device that is busy while no process is found is busy, by nobody known (coroot#793)."""
    share(node, "a", slots=4)
    node[0].loads, node[0].names_processes = [Load(10, 40)], False
    rows = node.run()
    assert rows.of("unattributed", 60).sum("used_us") == 24 * SECOND
    assert rows.of("a", 60).sum("memory_byte_ms") == (100 << 20) * 60_000
    assert rows.of("a", 60).flags() == {"used_partial"}


def test_field_case_11_hand_over_in_mid_window(node: Node) -> None:
    """Two pods that have a GPU one after the other share its minute, and no more (dcgm-exporter#340, #237)."""
    node.pod("a", end_s=90)
    node.pod("b", start_s=90, seen_s=91)
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 50, 0, 90), Load(11, 50, 90)]

    def hand_over() -> None:
        node.gone(10)
        node.granted.clear()
        node.grant("b", "GPU-0")
        node.process(11, cgroup("b"), start_s=90)

    node.at[90] = hand_over
    rows = node.run()
    for pod in "ab":
        assert rows.of(pod, 60).sum("held_us") == 30 * SECOND
        assert abs(rows.of(pod, 60).sum("used_us") - 15 * SECOND) <= 200_000
    assert rows.holders(60) == {"a", "b"}


def test_field_case_12_two_exporters_on_a_node(node: Node) -> None:
    """Two collectors that report the same samples count once, and the rows say so (gpu-monitoring-tools#174)."""
    share(node, "a", slots=1)
    node[0].loads = [Load(10, 50)]
    once = node.run()
    twice = {topic: list(rows) for topic, rows in node.log.items()}
    for topic, rows in node.log.items():
        for at_us, headers, payload in rows:
            if headers.boot_id:
                other = type(headers)(**{f: getattr(headers, f) for f in headers.__struct_fields__} | {"epoch_us": 7})
                twice[topic].append((at_us, other, payload))
    doubled = rows_of(twice)
    assert doubled.of("a", 60).sum("used_us") == once.of("a", 60).sum("used_us") == 30 * SECOND
    assert "duplicate_collector" in doubled.of("a", 60).flags()
