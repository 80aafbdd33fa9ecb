"""Scenario files: what ships is sound, what is wrong is told by place and name."""

import itertools
from collections import defaultdict
from pathlib import Path

import pytest

from infra.sim.model import SimCluster
from infra.sim.scenario import load_cluster
from infra.sim.scenario_format import ScenarioError, duration_us, read_scenario, shipped_scenarios

START_US = 1_795_000_000_000_000 // 60_000_000 * 60_000_000
FOREVER_US = 1 << 62
EXPECTED = {
    "default", "time-slicing", "unrequested", "same-name", "host-process", "idle-notebook", "short-pods", "bad-rows",
    "device-lost",
}  # fmt: skip


def grants(cluster: SimCluster) -> dict[str, list[tuple[int, int]]]:
    """Times of every slot's grants, in order."""
    found = defaultdict(list)
    for pod in cluster.pods:
        for container in pod.containers:
            for slot in container.slots:
                end_us = FOREVER_US if container.finished_us is None else container.finished_us
                found[slot].append((container.started_us, end_us))
    return {slot: sorted(times) for slot, times in found.items()}


@pytest.mark.parametrize("name", sorted(EXPECTED | set(shipped_scenarios())))
def test_shipped_scenario_is_sound(name: str) -> None:
    """Slots exist and are granted to one container at a time; pids and ids are unique; every load is there."""
    cluster, workload = load_cluster(name, start_us=START_US)
    assert cluster.end_us > cluster.start_us == START_US
    offered = {
        gpu.uuid if gpu.slots == 1 else f"{gpu.uuid}::{number}"
        for node in cluster.nodes
        for gpu in node.gpus
        for number in range(gpu.slots)
    }
    for slot, times in grants(cluster).items():
        assert slot in offered
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))
    containers = [container for pod in cluster.pods for container in pod.containers]
    processes = [p for c in containers for p in c.processes] + [p for n in cluster.nodes for p in n.host_processes]
    assert {process.load for process in processes} == set(workload.loads)
    assert len({c.container_id for c in containers}) == len(containers)
    assert len({pod.uid for pod in cluster.pods}) == len(cluster.pods)
    for node in cluster.nodes:
        pids = [p.pid for pod in cluster.pods if pod.node == node.name for c in pod.containers for p in c.processes]
        pids += [process.pid for process in node.host_processes]
        assert len(set(pids)) == len(pids)


def test_default_scenario_has_what_other_meters_get_wrong() -> None:
    """The demo's story: sharing, whole GPUs, unrequested use, re-creation, host process, short pods, two containers."""
    cluster, _ = load_cluster("default", start_us=START_US)
    names = [(pod.namespace, pod.name) for pod in cluster.pods]
    slots = {gpu.slots for node in cluster.nodes for gpu in node.gpus}
    assert len(cluster.nodes) == 2 and sum(len(node.gpus) for node in cluster.nodes) == 8 and slots == {1, 4}
    assert any(not c.slots and c.processes for pod in cluster.pods for c in pod.containers)
    assert any(node.host_processes for node in cluster.nodes)
    assert names.count(("serving", "web-0")) > 3
    assert sum(pod.deleted_us is not None and pod.name.startswith("short") for pod in cluster.pods) == 50
    assert any(len(pod.containers) == 2 for pod in cluster.pods)


def test_same_scenario_is_the_same_cluster_for_everyone() -> None:
    """Two processes that load a scenario for the same start get equal facts."""
    assert load_cluster("default", start_us=START_US)[0] == load_cluster("default", start_us=START_US)[0]


def written(directory: Path, text: str) -> str:
    """A scenario file with that text."""
    path = directory / "mine.yaml"
    path.write_text(text)
    return str(path)


BASE = "name: mine\nsummary: mine\nnodes: [{name: n, gpus: 2}]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BASE + "pods: [{name: p, node: n, gpu: 1}]", ["mine.yaml", "pods[0].gpu", "containers", "namespace"]),
        (BASE + "pods: [{name: p, node: n, containers: [{load: {dutty: 1}}]}]", ["load.dutty", "duty"]),
        (BASE + "colour: red", ["'colour'", "nodes"]),
        (BASE + "pods: [{name: p, node: n, containers: [{load: {kind: sleep}}]}]", ["mine.yaml", "kind"]),
        (BASE + "pods: [{name: p, node: m}]", ["no node 'm'", "nodes: n"]),
        (BASE + "pods: [{name: p, node: n, containers: [{gpus: [2]}]}]", ["GPUs 0 to 1"]),
        (BASE + "pods: [{name: p, node: n, starts: soon}]", ["pods p.starts", "'soon'", "90s"]),
        (BASE + "pods: [{name: p, node: n, containers: [{slots: 2}]}]", ["1 slots", "ask for fewer"]),
        (BASE + "faults: [{kind: fire, node: n}]", ["mine.yaml", "device_lost"]),
        (BASE + "pods: [{name: ../p, node: n}]", ["mine.yaml", "regex", "pods[0].name"]),
        (BASE + "pods: [{name: p, node: n, containers: [{load: {duty: 30}}]}]", ["mine.yaml", "duty", "1.0"]),
        (BASE + "pods: [{name: p, node: n, lives: -3s}]", ["pods p.lives"]),
        (BASE + "hours: 0", ["mine.yaml", "hours"]),
        ("name: mine\nsummary: s\nnodes: [{name: n}, {name: n}]", ["same name"]),
        ("name: [", ["mine.yaml", "YAML"]),
        ("- a", ["mine.yaml"]),
    ],
)
def test_scenario_error_names_file_field_and_what_is_allowed(tmp_path: Path, text: str, told: list[str]) -> None:
    """A scenario that cannot be played is refused with the file, the field and what may stand there."""
    with pytest.raises(ScenarioError) as error:
        load_cluster(written(tmp_path, text), start_us=START_US)
    assert all(word in str(error.value) for word in told), str(error.value)


def test_unknown_scenario_lists_those_there_are() -> None:
    """A name that does not ship is refused with the names that do."""
    with pytest.raises(ScenarioError, match="time-slicing"):
        read_scenario("nonsense")


@pytest.mark.parametrize(
    ("text", "us"),
    [("90s", 90_000_000), ("-10m", -600_000_000), ("1.5h", 5_400_000_000), (2, 2_000_000), ("3", 3_000_000)],
)
def test_duration_is_read_in_its_unit(text: str | int, us: int) -> None:
    """Durations are seconds, minutes or hours, whole or not, also negative."""
    assert duration_us(text, "here") == us
