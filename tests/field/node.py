"""A node for some minutes, from what driver, /proc, kubelet and API server say to the rows: no Kafka, no wall clock.

The agent that ships reads a scripted libnvidia-ml and real files; what it sends is the log of a meter. Times are whole
seconds after START; a load is points of 100 from a second to a second.
"""

from collections.abc import Callable
from pathlib import Path

from collector.agent import Agent, Sources
from collector.containers import Containers
from collector.driver import Driver
from collector.grants import Grants
from collector.kubelet import device_of
from collector.metrics import AgentMetrics
from collector.procfs import TICKS_PER_SECOND, ProcFs
from collector.roster import Roster
from collector.settings import AgentSettings
from schemas.clock import ClockRecord, encode_clock
from schemas.headers import Headers
from schemas.names import INPUT_TOPICS, POD_EVENTS
from schemas.pods import ContainerRecord, NodeRecord, PodRecord, Run, encode_record
from schemas.snapshots import DeviceSlots, Grant
from tests.field.gpu import SECOND, START, Gpu, Library
from tests.field.rows import Rows, rows_of

BOOTED_S = 100
NONE = 0xFFFFFFFF
SETTINGS = AgentSettings(cluster="c", node="n", bootstrap_servers="none:1")
AFTER_S = 480
"""So long the clock goes on after the agent, until every window is closed."""


def uid_of(name: str) -> str:
    """The uid of a pod by a letter or a name."""
    return f"{sum(name.encode()):08x}-0000-4000-8000-{len(name):012x}"


def container_of(name: str) -> str:
    """The id of a pod's container."""
    return f"{sum(name.encode()):064x}"


UID_A, CONTAINER_A = uid_of("a"), container_of("a")


def cgroup(pod: str, container: str = "") -> str:
    """The cgroup of a pod's container, as systemd and containerd write it."""
    uid = uid_of(pod).replace("-", "_")
    return f"0::/kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{container_of(pod + container)}.scope"


class Node:
    """One node; `at` has what happens at a second."""

    def __init__(self, root: Path, library: Library, gpus: int = 1) -> None:
        self.root, self.library = root, library
        self.now_us = 0
        self.until_s = 180
        self.at: dict[int, Callable[[], object]] = {}
        self.granted: list[Grant] = []
        self.capacity: dict[str, int] = {}
        self.log: dict[str, list[tuple[int, Headers, bytes]]] = {topic: [] for topic in INPUT_TOPICS}
        self.agent_settings = SETTINGS
        library.gpus = [Gpu(f"GPU-{n}", self.event_us) for n in range(gpus)]
        (root / "proc").mkdir()
        (root / "cgroup").mkdir()
        (root / "cgroup" / "cgroup.controllers").write_text("")

    def __getitem__(self, index: int) -> Gpu:
        """A GPU by its index."""
        gpu = self.library.gpus[index]
        assert isinstance(gpu, Gpu)
        return gpu

    def instance(self, uuid: str, gpu_instance: int, gpu: int = 0) -> Gpu:
        """A MIG instance of a GPU; as on all before Hopper, the driver tells no utilisation of a GPU in MIG mode."""
        parent = self[gpu]
        parent.mig_mode, made = 1, Gpu(uuid, self.event_us)
        made.gpu_instance_id = gpu_instance
        parent.instances = [*parent.instances, made]
        for call in ("nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"):
            self.library.codes |= {(call, parent.uuid): 3, (call, uuid): 3}
        return made

    def process(
        self, pid: int, cgroup: str, gpu: int = 0, memory_mib: int | None = 100, start_s: int = 0,
        on: Gpu | None = None,
    ) -> None:  # fmt: skip
        """A process with a context on a GPU or instance, from now on; `memory_mib` None: the driver does not say."""
        home = self.root / "proc" / str(pid)
        home.mkdir(exist_ok=True)
        ticks = (start_s + BOOTED_S) * TICKS_PER_SECOND
        (home / "stat").write_text(f"{pid} (a) b) S {' '.join(['1'] * 18)} {ticks} 0\n")
        (home / "cgroup").write_text(cgroup + "\n")
        group = self.root / "cgroup" / cgroup.partition("::/")[2]
        if "::/" in cgroup and ".." not in group.parts:
            group.mkdir(parents=True, exist_ok=True)
            procs = group / "cgroup.procs"
            procs.write_text((procs.read_text() if procs.exists() else "") + f"{pid}\n")
        memory = (1 << 64) - 1 if memory_mib is None else memory_mib << 20
        device = on or self[gpu]
        device.compute = [*device.compute, (pid, memory, NONE if on is None else on.gpu_instance_id, NONE)]

    def gone(self, pid: int, listed: bool = False) -> None:
        """The process ends; the driver may go on listing it."""
        for path in sorted((self.root / "proc" / str(pid)).iterdir()):
            path.unlink()
        (self.root / "proc" / str(pid)).rmdir()
        for procs in (self.root / "cgroup").rglob("cgroup.procs"):
            procs.write_text("".join(line for line in procs.read_text().splitlines(True) if line.strip() != str(pid)))
        for gpu in self.library.gpus if not listed else ():
            gpu.compute = [row for row in gpu.compute if row[0] != pid]

    def grant(self, pod: str, *device_ids: str, resource: str = "nvidia.com/gpu", container: str = "main") -> None:
        """The kubelet gave slots to a pod's container; ids in any form that device plugins write."""
        for device_id in device_ids:
            gpu = device_of(resource, device_id, lambda index, _: f"GPU-{index}")
            assert gpu is not None
            self.granted.append(
                Grant(
                    gpu_uuid=gpu, slot=device_id, resource=resource, namespace="ns", pod_name=pod,
                    container_name=container,
                )
            )  # fmt: skip

    def pod(
        self, name: str, start_s: int = -60, end_s: int | None = None, *, seen_s: int = -30, tag: str = "",
        containers: tuple[str, ...] = ("main",), kinds: dict[str, str] | None = None, requests: int = 1,
        hash_: str = "",
    ) -> None:  # fmt: skip
        """The API server's word on a pod, published at a second; `tag`, else its name, makes its uid and containers."""
        made = [
            ContainerRecord(
                name=container, kind=(kinds or {}).get(container, "main"),
                requests={"nvidia.com/gpu": requests} if requests else {},
                runs=[
                    Run(
                        container_id=container_of((tag or name) + container.removeprefix("main")),
                        started_us=START + start_s * SECOND,
                        finished_us=None if end_s is None else START + end_s * SECOND,
                    )
                ],
            )
            for container in containers
        ]  # fmt: skip
        record = PodRecord(
            uid=uid_of(tag or name), namespace="ns", name=name, node="n", containers=made, config_hash=hash_,
            created_us=START + start_s * SECOND, seen_us=START + seen_s * SECOND,
        )  # fmt: skip
        self._add(
            POD_EVENTS, START + seen_s * SECOND, Headers(record="pod", cluster="c", node="n"), encode_record(record)
        )

    def labels(self, labels: dict[str, str], capacity: dict[str, int]) -> None:
        """The API server's word on the node."""
        record = NodeRecord(name="n", labels=labels, capacity=capacity, created_us=START, seen_us=START - 30 * SECOND)
        self._add(POD_EVENTS, record.seen_us, Headers(record="node", cluster="c", node="n"), encode_record(record))

    def run(self) -> "Rows":
        """Runs the agent for its time, the meter over all that was sent, and gives the newest row of each holder."""
        roster = Roster(ProcFs(str(self.root / "proc")), Containers(str(self.root / "cgroup")))
        grants = Grants(self, lambda: 1, SETTINGS.grants_period_us)
        self.metrics = AgentMetrics()
        sources = Sources(Driver(), roster, grants, "boot")
        Agent(self.agent_settings, self, sources, self, self.metrics).run()
        for at_s in range(-60, self.until_s + AFTER_S, 5):
            for topic in INPUT_TOPICS:
                payload = encode_clock(ClockRecord(cluster="c", now_us=START + at_s * SECOND), b"", topic, 0)
                self._add(topic, START + at_s * SECOND, Headers(record="clock", cluster="c"), payload)
        return rows_of(self.log)

    # What the agent asks of its clock, its kubelet and its outlet.

    def event_us(self) -> int:
        """Wall clock."""
        return START + self.now_us

    def monotonic_us(self) -> int:
        """Boot time."""
        return self.now_us + BOOTED_S * SECOND

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Goes there at once; at the end no further."""
        to_us = monotonic_us - BOOTED_S * SECOND
        if to_us > self.until_s * SECOND:
            return False
        self.now_us = max(self.now_us, to_us)
        for second in sorted(second for second in self.at if second * SECOND <= self.now_us):
            self.at.pop(second)()
        return True

    def grants(self) -> list[Grant]:
        """Slots granted now."""
        return sorted(self.granted, key=lambda grant: (grant.pod_name, grant.slot))

    def slots(self) -> list[DeviceSlots]:
        """Slots that there are, one of each GPU or its instances unless told."""
        devices = [device for gpu in self.library.gpus for device in (gpu.instances or [gpu])]
        return [DeviceSlots(gpu_uuid=device.uuid, slots=self.capacity.get(device.uuid, 1)) for device in devices]

    def produce(self, topic: str, _node: str, headers: Headers, payload: bytes) -> bool:
        """Takes a message."""
        self._add(topic, self.event_us(), headers, payload)
        return True

    def poll(self) -> None:
        """Nothing to serve."""

    def flush(self, timeout_s: float) -> None:
        """Nothing to wait for."""

    def _add(self, topic: str, at_us: int, headers: Headers, payload: bytes) -> None:
        self.log[topic].append((at_us, headers, payload))
