"""From a scenario file, or a trace, to the simulated cluster and its loads.

Pure but for reading the file: the same file, start and hours give the same cluster in every process that asks. It must
not know the driver, /proc or the API. Tested in tests/unit/infra/sim/test_scenario.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.units import US_PER_HOUR

from .identities import container_id_of, gpu_uuid_of, pids, uuid_of
from .model import SimCluster, SimContainer, SimGpu, SimNode, SimPod, SimProcess
from .placement import SlotBook
from .scenario_format import (
    ContainerSpec,
    FaultSpec,
    HostProcessSpec,
    LoadSpec,
    NodeSpec,
    PodSpec,
    Scenario,
    ScenarioError,
    duration_us,
    read_scenario,
)
from .timeline import Load
from .traces import load_trace
from .workload import Fault, Workload, generated_load

BOOT_BEFORE_US = 24 * US_PER_HOUR
CREATE_BEFORE_US = 1_500_000
PROCESS_AFTER_US = 300_000
PROCESS_BEFORE_END_US = 50_000
DELETE_AFTER_US = 2_000_000
SHORTEST_LIFE_US = 1_000_000
GIB = 1 << 30
_LISTS = {"compute": 1, "graphics": 2, "mps": 4}


def load_cluster(
    path_or_name: str, *, start_us: int, hours: float | None = None, trace: str | None = None
) -> tuple[SimCluster, Workload]:
    """The cluster of a scenario (of a trace on its own fleet, where one is given) beginning at `start_us`.

    ScenarioError or TraceError says what cannot be read and why.
    """
    scenario = read_scenario(path_or_name)
    if trace is not None:
        return load_trace(trace, cluster=scenario.cluster, seed=scenario.seed, start_us=start_us, hours=hours)
    length_us = round((scenario.hours if hours is None else hours) * US_PER_HOUR)
    if length_us <= 0:
        raise ScenarioError(f"scenario {path_or_name}: hours must be above 0")
    return _Builder(scenario, start_us, start_us + length_us).build()


@dataclass(slots=True)
class _Builder:
    scenario: Scenario
    start_us: int
    end_us: int
    loads: dict[str, Load] = field(default_factory=dict)
    pids: dict[str, Iterator[int]] = field(default_factory=dict)
    book: SlotBook = field(default_factory=SlotBook)

    def build(self) -> tuple[SimCluster, Workload]:
        scenario = self.scenario
        if len({spec.name for spec in scenario.nodes}) < len(scenario.nodes):
            raise ScenarioError(f"scenario {scenario.name}: nodes: two have the same name")
        self.pids = {node.name: pids() for node in scenario.nodes}
        nodes = tuple(self._node(spec) for spec in scenario.nodes)
        lives = sorted((life for spec in scenario.pods for life in self._lives(spec)), key=lambda life: life[1])
        pods = tuple(self._pod(*life) for life in lives)
        faults = tuple(self._fault(spec) for spec in scenario.faults)
        cluster = SimCluster(scenario.cluster, self.start_us, self.end_us, nodes, pods)
        return cluster, Workload(self.loads, faults, scenario.divisor, scenario.seed)

    def _spec_of(self, node: str, where: str) -> NodeSpec:
        for spec in self.scenario.nodes:
            if spec.name == node:
                return spec
        known = ", ".join(spec.name for spec in self.scenario.nodes)
        raise ScenarioError(f"scenario {self.scenario.name}: {where}: no node {node!r}; nodes: {known}")

    def _gpu(self, node: str, index: int, where: str) -> str:
        spec = self._spec_of(node, where)
        if not 0 <= index < spec.gpus:
            raise ScenarioError(f"scenario {self.scenario.name}: {where}: node {node} has GPUs 0 to {spec.gpus - 1}")
        return gpu_uuid_of(self.scenario.seed, node, index)

    def _at(self, value: str | int | float, where: str) -> int:
        return self.start_us + duration_us(value, f"scenario {self.scenario.name}: {where}")

    def _node(self, spec: NodeSpec) -> SimNode:
        hosts = tuple(self._host(host) for host in self.scenario.host_processes if host.node == spec.name)
        return sim_node(self.scenario.seed, spec, self.start_us - BOOT_BEFORE_US, hosts)

    def _host(self, spec: HostProcessSpec) -> SimProcess:
        where = f"host_processes {spec.name}"
        start_us = self._at(spec.starts, f"{where}.starts")
        end_us = None if spec.lives is None else start_us + self._at(spec.lives, f"{where}.lives") - self.start_us
        gpu_uuid = self._gpu(spec.node, spec.gpu, where)
        name = self._load(f"host/{spec.node}/{spec.name}", spec.load, start_us, end_us)
        pid = next(self.pids[spec.node])
        return SimProcess(pid, start_us, end_us, gpu_uuid, name, round(spec.memory_gib * GIB))

    def _load(self, name: str, spec: LoadSpec, start_us: int, end_us: int | None) -> str:
        until_us = self.end_us if end_us is None else end_us
        if spec.kind == "notebook":
            until_us = start_us + duration_us(spec.active, f"scenario {self.scenario.name}: {name}: load.active")
        self.loads[name] = generated_load(spec.kind, spec.duty, name, self.scenario.seed, start_us, until_us)
        return name

    def _lives(self, spec: PodSpec) -> Iterator[tuple[PodSpec, int, int | None, int, str, str]]:
        """(spec, started, finished, copy, pod name, identity) of every pod that a pod entry stands for."""
        first_us = self._at(spec.starts, f"pods {spec.name}.starts")
        lives_us = None if spec.lives is None else self._at(spec.lives, f"pods {spec.name}.lives") - self.start_us
        if lives_us is not None and lives_us < SHORTEST_LIFE_US:
            raise ScenarioError(f"scenario {self.scenario.name}: pods {spec.name}.lives: must be 1s or more")
        times = spec.repeat.times if spec.repeat else 1
        every_us = self._at(spec.repeat.every, f"pods {spec.name}.repeat.every") - self.start_us if spec.repeat else 0
        for copy in range(spec.copies):
            for turn in range(times):
                started_us = first_us + turn * every_us
                name = spec.name if spec.copies == 1 else f"{spec.name}-{copy}"
                numbered = times == 1 or (spec.repeat is not None and spec.repeat.same_name)
                identity = f"{spec.namespace}/{name}/{turn}"
                if started_us < self.end_us:
                    finished_us = None if lives_us is None else started_us + lives_us
                    yield spec, started_us, finished_us, copy, name if numbered else f"{name}-{turn}", identity

    def _pod(
        self, spec: PodSpec, started_us: int, finished_us: int | None, copy: int, name: str, identity: str
    ) -> SimPod:
        uid = uuid_of(self.scenario.seed, f"pod/{identity}")
        containers = tuple(
            self._container(spec, container, f"{identity}/{container.name}", copy, started_us, finished_us)
            for container in spec.containers
        )
        return SimPod(
            uid=uid,
            namespace=spec.namespace,
            name=name,
            node=spec.node,
            created_us=started_us - CREATE_BEFORE_US,
            deleted_us=None if finished_us is None else finished_us + DELETE_AFTER_US,
            containers=containers,
            owner_kind=spec.owner.kind if spec.owner else "",
            owner_name=spec.owner.name if spec.owner else "",
            labels=spec.labels,
        )

    def _container(
        self, pod: PodSpec, spec: ContainerSpec, identity: str, copy: int, started_us: int, finished_us: int | None
    ) -> SimContainer:
        where = f"pods {pod.name}: container {spec.name}"
        node = self._spec_of(pod.node, where)
        slots: list[str] = []
        processes: list[SimProcess] = []
        end_us = None if finished_us is None else finished_us - PROCESS_BEFORE_END_US
        for index in spec.gpus:
            index = (index + copy) % node.gpus if pod.copies > 1 else index
            gpu_uuid = self._gpu(pod.node, index, where)
            for _ in range(spec.slots):
                slot = self.book.take(gpu_uuid, node.replicas, started_us, finished_us)
                if slot is None:
                    raise ScenarioError(
                        f"scenario {self.scenario.name}: {where}: GPU {index} of {pod.node} has {node.replicas} slots, "
                        f"all granted {(started_us - self.start_us) / 1e6:.0f} s after the start; ask for fewer"
                    )
                slots.append(slot)
            name = self._load(f"{identity}/{index}", spec.load, started_us + PROCESS_AFTER_US, end_us)
            processes.append(
                SimProcess(
                    pid=next(self.pids[pod.node]),
                    start_us=started_us + PROCESS_AFTER_US,
                    end_us=end_us,
                    gpu_uuid=gpu_uuid,
                    load=name,
                    memory_bytes=round(spec.memory_gib * GIB),
                    lists=sum(_LISTS[item] for item in set(spec.lists)),
                )
            )
        return SimContainer(
            name=spec.name,
            container_id=container_id_of(self.scenario.seed, identity),
            started_us=started_us,
            finished_us=finished_us,
            kind=spec.kind,
            requests={node.resource: len(slots)} if slots else {},
            slots=tuple(slots),
            processes=tuple(processes),
        )

    def _fault(self, spec: FaultSpec) -> Fault:
        where = f"faults {spec.kind}"
        start_us = self._at(spec.starts, f"{where}.starts")
        end_us = start_us + self._at(spec.lives, f"{where}.lives") - self.start_us
        return Fault(spec.kind, self._gpu(spec.node, spec.gpu, where), start_us, end_us)


def sim_node(seed: int, spec: NodeSpec, boot_us: int, hosts: tuple[SimProcess, ...] = ()) -> SimNode:
    """A node of the spec with the labels that GPU feature discovery would set."""
    memory_bytes = round(spec.memory_gib * GIB)
    gpus = tuple(
        SimGpu(gpu_uuid_of(seed, spec.name, index), index, spec.model, memory_bytes, spec.replicas)
        for index in range(spec.gpus)
    )
    shared = spec.replicas > 1
    product = spec.model.replace(" ", "-") + ("-SHARED" if shared else "")
    labels = {
        "kubernetes.io/hostname": spec.name,
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(spec.gpus),
        "nvidia.com/gpu.replicas": str(spec.replicas),
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if shared else "none",
        "nvidia.com/gpu.memory": str(memory_bytes >> 20),
    }
    return SimNode(spec.name, boot_us, uuid_of(seed, f"boot/{spec.name}"), gpus, hosts, labels, spec.resource)
