"""Kubelet device ids: every known form, and what is no GPU."""

import pytest

from collector import podresources_pb2 as pb
from collector.kubelet import device_of, grants_of, slots_of

GPU = "GPU-be6e8706-0000-4000-8000-000000000000"
MIG = "MIG-3f1b0c2e-1111-4000-8000-000000000000"


def _by_index(index: int, instance: int | None) -> str | None:
    return {(0, None): GPU, (0, 3): MIG}.get((index, instance))


@pytest.mark.parametrize(
    ("resource", "device_id", "device"),
    [
        ("nvidia.com/gpu", GPU, GPU),
        ("nvidia.com/gpu", f"{GPU}::0", GPU),
        ("nvidia.com/gpu.shared", f"{GPU}::11", GPU),
        ("nvidia.com/mig-1g.5gb", MIG, MIG),
        ("nvidia.com/mig-1g.5gb.shared", f"{MIG}::2", MIG),
        ("nvidia.com/gpu", MIG, MIG),
        ("example.com/renamed", f"{GPU}::1", GPU),
        ("nvidia.com/gpu", "nvidia0", GPU),
        ("nvidia.com/gpu", "nvidia0/vgpu1", GPU),
        ("nvidia.com/gpu", "nvidia0/gi3", MIG),
        ("nvidia.com/gpu", "nvidia0/gi3/vgpu1", MIG),
        ("nvidia.com/gpu", "nvidia9/vgpu1", "nvidia9"),
        ("nvidia.com/gpu", "nvidia0/gi9/vgpu0", "nvidia0/gi9"),
        ("other.com/nic", "nvidia0", None),
        ("rdma/hca", "mlx5_0", None),
        ("intel.com/gpu", "card0-0", None),
        ("nvidia.com/gpu", "nvidia-modeset", None),
    ],
)
def test_device_id_names_its_device(resource: str, device_id: str, device: str | None) -> None:
    """Each form of device id leads to the GPU or instance it is a slot of, and a foreign one to none."""
    assert device_of(resource, device_id, _by_index) == device


def test_grants_hold_each_slot_once_in_a_fixed_order() -> None:
    """Entries that repeat or come in another order give the same grants."""
    answer = pb.ListPodResourcesResponse()
    container = answer.pod_resources.add(name="p", namespace="n").containers.add(name="c")
    for slot in ("::1", "::0", "::1"):
        container.devices.add(resource_name="nvidia.com/gpu", device_ids=[GPU + slot])
    container.devices.add(resource_name="rdma/hca", device_ids=["mlx5_0"])
    assert [grant.slot for grant in grants_of(answer, _by_index)] == [f"{GPU}::0", f"{GPU}::1"]


def test_slots_count_distinct_ids_of_gpus_only() -> None:
    """A repeated id counts once, other devices not at all."""
    devices = [
        pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=[f"{GPU}::0", f"{GPU}::1"]),
        pb.ContainerDevices(resource_name="nvidia.com/gpu", device_ids=[f"{GPU}::1"]),
        pb.ContainerDevices(resource_name="rdma/hca", device_ids=["mlx5_0"]),
    ]
    assert [(slots.gpu_uuid, slots.slots) for slots in slots_of(devices, _by_index)] == [(GPU, 2)]
