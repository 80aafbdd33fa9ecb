"""The simulated /proc and cgroup trees."""

from pathlib import Path

import pytest

from infra.sim.filesystem import TICKS_PER_SECOND, NodeFiles, scope_of
from infra.sim.model import SimCluster, SimContainer, SimNode, SimPod, SimProcess
from infra.sim.scenario import load_cluster
from infra.sim.world import containers_on, processes_on

START_US = 1_795_000_000_000_000 // 60_000_000 * 60_000_000


def in_proc(files: NodeFiles) -> set[int]:
    """Pids that /proc shows, but 1."""
    return {int(path.name) for path in files.proc_path.iterdir() if path.name.isdigit()} - {1}


def in_cgroups(files: NodeFiles) -> dict[str, set[int]]:
    """Pids by container directory."""
    return {
        str(path.parent.relative_to(files.cgroup_path)): {int(pid) for pid in path.read_text().split()}
        for path in files.cgroup_path.glob("kubepods.slice/**/cgroup.procs")
    }


@pytest.mark.parametrize("scenario", ["short-pods", "same-name", "host-process", "default"])
def test_trees_name_exactly_the_living(tmp_path: Path, scenario: str) -> None:
    """At every time /proc has the processes that live and the cgroups those of each container that runs."""
    cluster, _ = load_cluster(scenario, start_us=START_US)
    node = cluster.nodes[0]
    with NodeFiles(cluster, node, tmp_path / "node") as files:
        for step in range(0, 900, 7):
            now_us = START_US + step * 1_000_000
            files.advance(now_us)
            alive = {p.pid for p in processes_on(cluster, node) if p.start_us <= now_us < (p.end_us or 1 << 62)}
            assert in_proc(files) == alive
            running = {
                scope_of(pod, c.container_id).lstrip("/"): {p.pid for p in c.processes if p.pid in alive}
                for pod, c in containers_on(cluster, node.name)
                if c.started_us <= now_us < (c.finished_us or 1 << 62)
            }
            assert in_cgroups(files) == running
    assert not (tmp_path / "node").exists()


def test_stat_and_cgroup_lead_to_the_container(tmp_path: Path) -> None:
    """Field 22 of stat, counted after the last parenthesis, is the start in ticks; cgroup names pod and container."""
    cluster, _ = load_cluster("unrequested", start_us=START_US)
    node = cluster.nodes[0]
    pod, container = next(containers_on(cluster, node.name))
    process = container.processes[0]
    with NodeFiles(cluster, node, tmp_path / "node") as files:
        files.advance(START_US)
        stat = (files.proc_path / str(process.pid) / "stat").read_text()
        assert int(stat.rpartition(")")[2].split()[19]) == (process.start_us - node.boot_us) * TICKS_PER_SECOND // 10**6
        cgroup = (files.proc_path / str(process.pid) / "cgroup").read_text()
        assert cgroup == f"0::{scope_of(pod, container.container_id)}\n"
        assert pod.uid.replace("-", "_") in cgroup and container.container_id in cgroup
        assert (files.proc_path / "sys/kernel/random/boot_id").read_text() == f"{node.boot_id}\n"
        assert f"btime {node.boot_us // 10**6}\n" in (files.proc_path / "stat").read_text()


def test_container_that_ends_with_its_process_leaves_nothing(tmp_path: Path) -> None:
    """Where process and container end at the same microsecond, the process goes first and both are gone."""
    process = SimProcess(77, START_US, START_US + 9, "GPU-x", "l", 1)
    container = SimContainer("main", "a" * 64, START_US, START_US + 9, processes=(process,))
    pod = SimPod("0" * 8 + "-1111-2222-3333-444444444444", "ns", "p", "n", START_US, None, (container,))
    node = SimNode("n", START_US - 1_000_000, "boot", ())
    with NodeFiles(SimCluster("c", START_US, START_US + 99, (node,), (pod,)), node, tmp_path / "node") as files:
        files.advance(START_US)
        assert in_proc(files) == {77} and list(in_cgroups(files).values()) == [{77}]
        files.advance(START_US + 9)
        assert in_proc(files) == set() and in_cgroups(files) == {}
