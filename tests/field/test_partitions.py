"""B and C. MPS and MIG."""

import pytest

from collector.kubelet import device_of
from tests.field.gpu import SECOND, Load
from tests.field.node import Node, cgroup


def test_field_case_15_clients_in_the_mps_list_alone(node: Node) -> None:
    """Clients that only the list of MPS shows have their memory and use, and the rows say MPS (dcgm-exporter#478)."""
    node.capacity = {"GPU-0": 2}
    for n, (pod, mib) in enumerate((("a", 300), ("b", 500))):
        node.pod(pod)
        node.grant(pod, f"GPU-0::{n}")
        node.process(10 + n, cgroup(pod), memory_mib=mib)
    node[0].mps, node[0].compute = node[0].compute, []
    node[0].loads = [Load(10, 50), Load(11, 20)]
    rows = node.run()
    assert [rows.of(pod, 60).sum("used_us") for pod in "ab"] == [30 * SECOND, 12 * SECOND]
    assert [rows.of(pod, 60).sum("memory_byte_ms") for pod in "ab"] == [(300 << 20) * 60_000, (500 << 20) * 60_000]
    assert all(row["flags"] == ["mps"] for row in rows if row["at"] == 60)


def test_field_case_15_client_in_two_lists(node: Node) -> None:
    """A client that the lists of compute and MPS show (M+C) has its memory once (dcgm-exporter#474)."""
    node.pod("a")
    node.process(10, cgroup("a"), memory_mib=15866)
    node[0].mps = node[0].compute
    (row,) = node.run().of("a", 60)
    assert row["memory_byte_ms"] == (15866 << 20) * 60_000


def test_field_case_17_grants_that_fail_once(node: Node) -> None:
    """A grant that the kubelet shows only later is the pod's from its start on (dcgm-exporter#272)."""
    node.pod("a")
    node.process(10, cgroup("a"))
    node.at[35] = lambda: node.grant("a", "GPU-0")
    rows = node.run()
    assert rows.of("a", 60).sum("held_us") == 60 * SECOND


@pytest.mark.parametrize(
    ("device_id", "device"),
    [
        ("nvidia0/gi7", "MIG-of-0-7"),
        ("nvidia0/gi7/vgpu1", "MIG-of-0-7"),
        ("nvidia0/vgpu1", "GPU-of-0"),
        ("MIG-12aa7c89-bb90-59b7-ac2c-2e9cf0298925::7", "MIG-12aa7c89-bb90-59b7-ac2c-2e9cf0298925"),
        ("MIG-GPU-be6e8706-0000-4000-8000-000000000001/12/0", "MIG-GPU-be6e8706-0000-4000-8000-000000000001/12/0"),
    ],
)
def test_field_case_18_ids_of_gke_and_of_mig(device_id: str, device: str) -> None:
    """Every form of a device id names its GPU or instance (dcgm-exporter#92)."""
    names = {(0, 7): "MIG-of-0-7", (0, None): "GPU-of-0"}
    assert device_of("nvidia.com/gpu", device_id, lambda *place: names.get(place)) == device


def test_field_case_18_time_shared_gpus_of_gke(make_node: object) -> None:
    """Pods that GKE gave nvidia0/vgpu1 and nvidia1 hold half of one GPU and all of the other (dcgm-exporter#92)."""
    node: Node = make_node(2)  # type: ignore[operator]
    node.capacity = {"GPU-0": 2}
    for n, (pod, device_id) in enumerate((("a", "nvidia0/vgpu1"), ("b", "nvidia1"))):
        node.pod(pod)
        node.grant(pod, device_id)
        node.process(10 + n, cgroup(pod), gpu=n)
        node[n].loads = [Load(10 + n, 50)]
    rows = node.run()
    held = {(row["pod_name"], row["gpu_uuid"]): row["held_us"] for row in rows if row["at"] == 60 and row["pod_name"]}
    assert held == {("a", "GPU-0"): 30 * SECOND, ("b", "GPU-1"): 60 * SECOND}
