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


def mig(node: Node, pods: str = "a", instances: int = 2) -> None:
    """A GPU in so many instances of which each pod holds one and has a process on it."""
    made = [node.instance(f"MIG-{n}", n + 1) for n in range(instances)]
    for n, pod in enumerate(pods):
        node.pod(pod)
        node.grant(pod, f"MIG-{n}", resource="nvidia.com/mig-1g.10gb")
        node.process(10 + n, cgroup(pod), on=made[n])


def test_field_case_19_use_of_an_instance_is_unknown_and_its_time_is_charged(node: Node) -> None:
    """Without utilisation an instance is charged by who holds it; used is unknown, not 0 (dcgm-exporter#216, #105)."""
    mig(node)
    rows = node.run()
    (row,) = rows.of("a", 60)
    assert (row["gpu_uuid"], row["basis"]) == ("MIG-0", "allocation")
    assert (row["used_us"], row["charged_us"], row["held_us"]) == (None, 60 * SECOND, 60 * SECOND)
    assert (row["resident_us"], row["hot_idle_us"]) == (60 * SECOND, None)
    assert rows.of("unallocated", 60, "MIG-1").sum("charged_us") == 60 * SECOND


def test_field_case_20_time_shared_instance(node: Node) -> None:
    """Two pods that share an instance are charged half of it each, by what they hold (kepler#1198, nvtop#256)."""
    made = node.instance("MIG-0", 1)
    node.capacity = {"MIG-0": 2}
    for n, pod in enumerate("ab"):
        node.pod(pod)
        node.grant(pod, f"MIG-0::{n}", resource="nvidia.com/mig-1g.10gb.shared")
        node.process(10 + n, cgroup(pod), on=made)
    rows = node.run()
    assert [rows.of(pod, 60).sum("charged_us") for pod in "ab"] == [30 * SECOND] * 2
    assert all(row["used_us"] is None for pod in "ab" for row in rows.of(pod, 60))


def test_field_case_20_instance_that_comes_in_mid_window(node: Node) -> None:
    """An instance made while a window runs is found within a minute and is there from then on; before, it was free."""
    node.pod("a")
    node.instance("MIG-9", 1)

    def made() -> None:
        node.process(10, cgroup("a"), on=node.instance("MIG-0", 2))
        node.grant("a", "MIG-0")

    node.at[91] = made
    rows = node.run()
    assert rows.of("a", 120).sum("charged_us") == 60 * SECOND
    late = rows.of("a", 60, "MIG-0").sum("charged_us") + rows.of("unallocated", 60, "MIG-0").sum("charged_us")
    unseen = rows.of("unobserved", 60, "MIG-0").sum("charged_us")
    assert 0 < late <= 29 * SECOND and unseen <= 5 * SECOND
    free = rows.of("unallocated", 60, "GPU-0/free").sum("charged_us")
    assert free == 6 * 60 * SECOND - late - unseen


@pytest.mark.parametrize(("sizes", "free"), [((3, 3), 1), ((1,) * 7, 0), ((1, 1, 1, 1), 3), ((7,), 0), ((), 7)])
def test_field_case_20_slices_weigh_and_free_ones_are_nobodys(node: Node, sizes: tuple[int, ...], free: int) -> None:
    """Rows carry the slices of their instance; what is in none (3g+3g leaves a seventh) is unallocated ."""
    node.pod("a")
    node[0].mig_mode = 1
    node.library.codes["nvmlDeviceGetSamples", "GPU-0"] = 3
    for n, slices in enumerate(sizes):
        node.instance(f"MIG-{n}", n + 1).slices = slices
        node.grant("a", f"MIG-{n}")
    rows = [row for row in node.run() if row["at"] == 60]
    mine = [(row["weight_slices"], row["weight_total"], row["charged_us"]) for row in rows if row["pod_name"] == "a"]
    assert sorted(mine) == sorted((slices, 7, 60 * SECOND) for slices in sizes)
    left = [row for row in rows if row["gpu_uuid"] == "GPU-0/free"]
    shown = [(row["holder"], row["parent_uuid"], row["weight_slices"], row["charged_us"]) for row in left]
    assert shown == ([("unallocated", "GPU-0", 1, free * 60 * SECOND)] if free else [])


def test_field_case_20_layout_that_changes_in_mid_window(node: Node) -> None:
    """Seven small instances become one large: each is there in its own time, and the GPU is counted once."""
    old = [node.instance(f"MIG-{n}", n + 1) for n in range(7)]

    def change() -> None:
        node[0].instances = [one for one in node[0].instances if one not in old]
        node.instance("MIG-7", 0).slices = 7

    node.at[91] = change
    rows = [row for row in node.run() if row["at"] == 60]
    life = {row["gpu_uuid"]: row["lifetime_us"] // SECOND for row in rows}
    assert set(life) == {"MIG-7", *(f"MIG-{n}" for n in range(7))} | ({"GPU-0/free"} & set(life))
    assert {life[f"MIG-{n}"] for n in range(7)} == {life["MIG-0"]} and 30 <= life["MIG-0"] <= 40
    assert sum(row["charged_us"] for row in rows if row["holder"] == "unobserved") <= 12 * 7 * SECOND


def test_field_case_20_gpu_that_goes_into_mig_mode(node: Node) -> None:
    """A whole GPU that is partitioned in mid-window counts as a whole until then, and by its slices from then on."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 50, 0, 90)]
    node.at[91] = lambda: setattr(node.instance("MIG-0", 1), "slices", 3)
    rows = [row for row in node.run() if row["at"] == 60]
    life = {row["gpu_uuid"]: row["lifetime_us"] // SECOND for row in rows}
    assert life["GPU-0"] + life["MIG-0"] == 60 and life["GPU-0/free"] == 4 * life["MIG-0"]
    assert 14 * SECOND <= sum(row["used_us"] or 0 for row in rows if row["pod_name"] == "a") <= 16 * SECOND


def test_field_case_20_driver_that_does_not_tell_slices(node: Node) -> None:
    """Without the sizes of its instances each counts as a device of its own, and the rows say so."""
    mig(node)
    node.library.missing.add("nvmlDeviceGetAttributes_v2")
    rows = [row for row in node.run() if row["at"] == 60]
    assert {(row["gpu_uuid"], row["weight_total"], row["charged_us"]) for row in rows} == {
        ("MIG-0", 1, 60 * SECOND), ("MIG-1", 1, 60 * SECOND),
    }  # fmt: skip
    assert all("slices_unknown" in row["flags"] for row in rows)


def test_field_case_25_board_has_energy_and_instances_have_none(node: Node) -> None:
    """Energy that the driver tells of the board alone is unknown for its instances, not 0 (dcgm-exporter#561)."""
    mig(node)
    node[0].watts = 100
    node.library.codes |= {("nvmlDeviceGetTotalEnergyConsumption", f"MIG-{n}"): 3 for n in range(2)}
    assert {row["energy_mj"] for row in node.run() if row["at"] == 60} == {None}


def test_field_case_23_every_look_up_of_56_instances_fails(make_node: object) -> None:
    """Of eight GPUs in 56 instances each failing call is made once, not at every reading (dcgm-exporter#599)."""
    node: Node = make_node(8)  # type: ignore[operator]
    for n in range(56):
        node.instance(f"MIG-{n}", n % 7 + 1, gpu=n // 7)
    node.run()
    assert node.library.calls["nvmlDeviceGetSamples"] <= 56 + 8
    assert node.library.calls["nvmlDeviceGetProcessUtilization"] <= 56 + 8
