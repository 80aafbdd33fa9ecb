"""Faults that were read in the code of the strongest peers, each turned against us."""

from collections.abc import Callable

from collector.errors import Retry
from tests.field.gpu import SECOND, Load
from tests.field.node import NONE, Node, cgroup


def alone(node: Node, memory_mib: int = 100) -> None:
    """A pod with the whole GPU and one process."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"), memory_mib=memory_mib)


def test_field_case_peer_1_old_samples_are_not_read_again(node: Node) -> None:
    """A process that stops at the minute has nothing in the next one, though the ring still names it."""
    alone(node)
    node[0].loads = [Load(10, 100, 0, 60)]
    rows = node.run()
    assert rows.of("a", 0).sum("used_us") >= 59_600_000
    assert rows.of("a", 60).sum("used_us") <= 200_000 and rows.of("a", 120).sum("used_us") == 0


def test_field_case_peer_2_use_that_nobody_maps_is_no_clean_zero(node: Node) -> None:
    """A pod that holds a GPU which a process used that is not in /proc: its use is told to be partial, not to be 0."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node[0].compute, node[0].loads = [(114855, 1 << 30, NONE, NONE)], [Load(114855, 50)]
    rows = node.run()
    assert rows.of("a", 60).flags() == {"used_partial"}
    assert rows.of("unattributed", 60).sum("used_us") == 30 * SECOND


def test_field_case_peer_4_device_and_pods_are_one_sum(node: Node) -> None:
    """The rows of a GPU add up to it once: there is no row of the device beside those of its pods."""
    alone(node)
    node[0].loads = [Load(10, 40)]
    rows = node.run()
    assert rows.holders(60) == {"a"} and rows.of("a", 60).sum("charged_us") == 60 * SECOND


def test_field_case_peer_5_graphics_processes_count(node: Node) -> None:
    """A process that only the list of graphics shows has its memory."""
    alone(node, 700)
    node[0].graphics, node[0].compute = node[0].compute, []
    (row,) = node.run().of("a", 60)
    assert row["memory_byte_ms"] == (700 << 20) * 60_000


def test_field_case_peer_6_process_of_a_pod_that_was_granted_another_gpu(make_node: Callable[..., Node]) -> None:
    """A pod that was given one GPU and runs on another is metered where it runs, and held where it was given."""
    node = make_node(2)
    node.pod("a")
    node.grant("a", "GPU-1")
    node.process(10, cgroup("a"), gpu=0)
    node[0].loads = [Load(10, 50)]
    rows = node.run()
    assert rows.of("a", 60, "GPU-0").sum("used_us") == 30 * SECOND
    assert rows.of("a", 60, "GPU-1").sum("held_us") == 60 * SECOND
    assert rows.of("a", 60, "GPU-1").sum("used_us") == 0


def test_field_case_peer_9_mapping_error_is_told(node: Node) -> None:
    """While the kubelet is silent a pod is known by its process; what it holds is unknown, and the rows say so."""
    alone(node)
    node[0].loads = [Load(10, 50)]

    def away() -> list:
        raise Retry("away")

    node.grants = away  # type: ignore[method-assign]
    (row,) = node.run().of("a", 60)
    assert (row["used_us"], row["held_us"]) == (30 * SECOND, None) and row["flags"] == ["grant_unknown"]


def test_field_case_peer_coroot_gpus_read_at_other_phases(make_node: Callable[..., Node]) -> None:
    """Two GPUs whose samples lie at different phases of a second both keep all of theirs."""
    node = make_node(2)
    for n, pod in enumerate("ab"):
        node.pod(pod)
        node.process(10 + n, cgroup(pod), gpu=n)
        node[n].loads = [Load(10 + n, 50)]
        node[n].phase_us = (90_000, 40_000)[n]
    rows = node.run()
    assert [rows.of(pod, 60).sum("used_us") for pod in "ab"] == [30 * SECOND] * 2


def test_field_case_peer_kepler_idle_tenant_pays_no_active_power(node: Node) -> None:
    """Where nobody is named the energy of use is nobody's; an idle tenant has the idle part of what it holds."""
    alone(node)
    node[0].loads, node[0].names_processes, node[0].watts = [Load(10, 50)], False, 100
    rows = node.run()
    assert rows.of("unattributed", 60).sum("energy_mj") == rows.of("a", 60).sum("energy_mj") == 3_000_000
