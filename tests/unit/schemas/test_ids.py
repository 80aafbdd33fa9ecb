"""Identities are pure functions of their parts."""

from collections import Counter

import pytest

from schemas.ids import device_of_slot, holder_of, partition_of


def test_partition_of_a_node_is_fixed() -> None:
    """The partition of a node never changes for a partition count: another value would tear its log in two."""
    assert [partition_of("prod", f"gpu-{n}", 12) for n in range(6)] == [6, 6, 5, 2, 2, 4]
    assert partition_of("a", "bc", 1 << 30) != partition_of("ab", "c", 1 << 30)


def test_partitions_of_numbered_nodes_are_even() -> None:
    """Nodes whose names differ by a digit spread over the partitions."""
    counts = Counter(partition_of("prod", f"pool-{n}", 16) for n in range(1600))
    assert len(counts) == 16
    assert max(counts.values()) < 150


def test_holder_is_named_by_container_then_by_id() -> None:
    """A container has its name as soon as a pod event told it; before, the beginning of its id."""
    assert holder_of("uid", "main", "f" * 64) == "uid/main"
    assert holder_of("uid", "", "f" * 64) == f"uid/id:{'f' * 12}"


@pytest.mark.parametrize(("slot", "device"), [("GPU-x", "GPU-x"), ("GPU-x::3", "GPU-x"), ("MIG-x::11", "MIG-x")])
def test_slot_belongs_to_its_device(slot: str, device: str) -> None:
    """A replica's id names the device before the double colon."""
    assert device_of_slot(slot) == device
