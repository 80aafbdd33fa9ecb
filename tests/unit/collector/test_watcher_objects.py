"""Reading of the API server's objects: quantities, times, ids, nulls."""

from datetime import UTC, datetime

import msgspec
import pytest

from collector.watcher.api_objects import Pod, container_id, gpu_quantities, is_gpu_resource, quantity, time_us


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (8, 8),
        ("1k", 1000),
        ("2Ki", 2048),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1500m", 2),
        ("0", 0),
        ("10Gi", 10 << 30),
    ],
)
def test_quantity_is_read_in_every_form(text: str | int, number: int) -> None:
    """Plain, decimal, binary and exponent forms give the whole number, rounded up."""
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["", "one", "1Zi"])
def test_quantity_that_is_none_is_refused(text: str) -> None:
    """What is no quantity is an error and not zero."""
    with pytest.raises(ArithmeticError):
        quantity(text)


@pytest.mark.parametrize(
    ("name", "is_gpu"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("k8s.amazonaws.com/vgpu", True),
        ("aliyun.com/gpu-mem", True),
        ("cpu", False),
        ("gpu", False),
        ("rdma/hca", False),
        ("intel.com/qat", False),
    ],
)
def test_gpu_resource_is_known_by_its_name(name: str, is_gpu: bool) -> None:
    """NVIDIA's resources and those that say gpu are GPUs."""
    assert is_gpu_resource(name) is is_gpu


def test_requests_come_before_limits() -> None:
    """The first mention of a resource counts; one only in the limits counts too."""
    assert gpu_quantities(
        {"nvidia.com/gpu": "1", "cpu": "2"}, {"nvidia.com/gpu": "9", "nvidia.com/mig-1g.5gb": 2}, None
    ) == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.5gb": 2,
    }


def test_amounts_beside_gpus_are_not_gpus() -> None:
    """HAMi's and Volcano's memory and cores do not add to the number of GPUs; asked alone they are a request."""
    asked = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": 25, "nvidia.com/priority": 1}
    assert gpu_quantities(asked) == {"nvidia.com/gpu": 1}
    assert gpu_quantities({"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": "8k"}) == {
        "volcano.sh/vgpu-number": 2
    }
    assert gpu_quantities({"aliyun.com/gpu-mem": 8}) == {"aliyun.com/gpu-mem": 8}


def test_time_keeps_microseconds_and_zone() -> None:
    """A time with fraction and zone is the same integer everywhere."""
    pod = msgspec.json.decode(b'{"metadata": {"creationTimestamp": "2026-07-23T14:00:00.000001+02:00"}}', type=Pod)
    assert time_us(pod.metadata.creation_timestamp) == time_us(datetime(2026, 7, 23, 12, 0, 0, 1, UTC))
    assert time_us(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1_000_000
    assert time_us(None) is None


@pytest.mark.parametrize("told", ["containerd://", "cri-o://", "docker://", ""])
def test_container_id_loses_its_runtime(told: str) -> None:
    """The runtime's prefix goes, whichever it is."""
    assert container_id(told + "ab" * 32) == "ab" * 32


def test_nulls_are_read_as_absent() -> None:
    """Null labels, lists, states and times, as the API server writes them, are no error."""
    text = b"""{"metadata": {"name": "p", "labels": null, "annotations": null, "creationTimestamp": null, "extra": 1},
      "spec": {"containers": null, "initContainers": null},
      "status": {"containerStatuses": [{"name": "c", "state": {"terminated": {"startedAt": null, "finishedAt": null}},
        "lastState": {}}], "initContainerStatuses": null}}"""
    pod = msgspec.json.decode(text, type=Pod)
    assert pod.metadata.labels is None
    assert pod.spec.node_name == ""
