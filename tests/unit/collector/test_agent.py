"""The agent's loop over a scripted driver and real files, with an outlet that keeps what it is given."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import ipc

from collector.agent import Agent, Sources
from collector.app import build_agent
from collector.containers import Containers
from collector.driver import Driver
from collector.errors import Retry, Stop
from collector.grants import Grants
from collector.metrics import AgentMetrics
from collector.procfs import ProcFs
from collector.roster import Roster
from collector.settings import AgentSettings
from schemas.headers import READING, SNAPSHOT, Headers
from schemas.names import GPU_SAMPLES, POD_MAPPINGS
from schemas.samples import CLOCK_STEP, FIRST_READING
from schemas.snapshots import DeviceSlots, Grant, Snapshot, decode_snapshot

SECOND = 1_000_000
BOOT = 1_800_000_000 * SECOND
SETTINGS = AgentSettings(cluster="c", node="n", bootstrap_servers="none:1")


class Sent(NamedTuple):
    """A message that was queued."""

    topic: str
    headers: Headers
    payload: bytes

    def rows(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Device and process rows of a reading."""
        source = pa.BufferReader(self.payload)
        return ipc.open_stream(source).read_all().to_pylist(), ipc.open_stream(source).read_all().to_pylist()

    def snapshot(self) -> Snapshot:
        """The snapshot."""
        return decode_snapshot(self.payload)


class Outlet:
    """Keeps messages; may be full."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.full = False

    def produce(self, topic: str, node: str, headers: Headers, payload: bytes) -> bool:
        """Takes a message where it is not full."""
        if not self.full:
            self.sent.append(Sent(topic, headers, payload))
        return not self.full

    def poll(self) -> None:
        """Nothing to serve."""

    def flush(self, timeout_s: float) -> None:
        """Nothing to wait for."""

    def of(self, record: str) -> list[Sent]:
        """Messages of a kind."""
        return [one for one in self.sent if one.headers.record == record]


class Clock:
    """Time that jumps to each deadline; `at` has what happens at a second, and it stops at `until`."""

    def __init__(self, until: int) -> None:
        self.now = 100 * SECOND
        self.step_us = 0
        self.until = self.now + until * SECOND
        self.at: dict[int, Any] = {}
        self.driver: Any = None

    def event_us(self) -> int:
        """Event time."""
        return BOOT + self.now + self.step_us

    def monotonic_us(self) -> int:
        """Boot time."""
        return self.now

    def wait_until_us(self, monotonic_us: int) -> bool:
        """Goes there, unless the end comes first."""
        if monotonic_us > self.until:
            return False
        self.now = max(self.now, monotonic_us)
        self.at.pop((self.now - 100 * SECOND) // SECOND, lambda: None)()
        return True


class Kubelet:
    """A kubelet with one grant."""

    def __init__(self, clock: Clock) -> None:
        self.away = False
        self.asked: list[int] = []
        self._clock = clock

    def grants(self) -> list[Grant]:
        """One grant, or Retry."""
        self.asked.append(self._clock.now)
        if self.away:
            raise Retry("away")
        return [Grant(gpu_uuid="GPU-0", slot="GPU-0", resource="r", namespace="n", pod_name="p", container_name="c")]

    def slots(self) -> list[DeviceSlots]:
        """One slot."""
        return [DeviceSlots(gpu_uuid="GPU-0", slots=1)]


class Rig:
    """An agent with all that it looks at."""

    def __init__(self, root: Path, library: Any, until: int, settings: AgentSettings = SETTINGS) -> None:
        self.library, self.clock, self.outlet = library, Clock(until), Outlet()
        self.kubelet = Kubelet(self.clock)
        self.metrics = AgentMetrics()
        self.root = root
        roster = Roster(ProcFs(str(root / "proc")), Containers(str(root / "cgroup")))
        sources = Sources(Driver(), roster, Grants(self.kubelet, lambda: 1, settings.grants_period_us), "boot")
        self.agent = Agent(settings, self.clock, sources, self.outlet, self.metrics)
        library.gpus[0].compute = [(7, 100, 0xFFFFFFFF, 0xFFFFFFFF)]
        self._sample_on_read()

    def _sample_on_read(self) -> None:
        """The ring holds a sample each 0.2 s up to now."""
        gpu, clock = self.library.gpus[0], self.clock

        class Ring(list[tuple[int, int]]):
            def __iter__(self) -> Any:
                now = clock.event_us()
                return iter([(now - n * 200_000, 50) for n in range(60, -1, -1)])

        gpu.samples = Ring()


@pytest.fixture
def rig(tmp_path: Path, library: Any) -> Any:
    """Makes a rig for a number of seconds."""
    return lambda until, settings=SETTINGS: Rig(tmp_path, library, until, settings)


def test_agent_sends_a_reading_every_five_seconds(rig: Any) -> None:
    """A minute has 13 readings, numbered from 1 without a gap; the first primes and the rest touch."""
    one = rig(60)
    one.agent.run()
    readings = one.outlet.of(READING)
    assert [sent.headers.seq for sent in readings] == list(range(1, 14))
    rows = [sent.rows()[0][0] for sent in readings]
    assert [row["flags"] for row in rows] == [FIRST_READING] + [0] * 12
    assert all(later["span_start_us"] == earlier["span_end_us"] for earlier, later in pairwise(rows))
    assert [row["sample_count"] for row in rows] == [0] + [25] * 12
    assert {sent.headers.node for sent in readings} == {"n"} and {s.headers.boot_id for s in readings} == {"boot"}


def test_agent_promises_what_it_keeps(rig: Any) -> None:
    """Each message promises at most the start of every later span, and promises grow."""
    one = rig(60)
    one.agent.run()
    readings = one.outlet.of(READING)
    promises = [sent.headers.complete_to_us for sent in readings]
    starts = [sent.rows()[0][0]["span_start_us"] for sent in readings]
    assert promises == sorted(promises)
    assert all(promise <= start for promise, start in zip(promises, starts[1:], strict=False))


def test_agent_sends_the_snapshot_before_its_reading(rig: Any) -> None:
    """A reading names a snapshot of the same epoch that went out earlier and knows all the reading's processes."""
    one = rig(130)
    one.clock.at[31] = lambda: setattr(one.library.gpus[0], "compute", [(7, 1, 0, 0), (8, 1, 0, 0)])
    one.agent.run()
    known: dict[int, Snapshot] = {}
    for sent in one.outlet.sent:
        if sent.headers.record == SNAPSHOT:
            known[sent.snapshot().mapping_seq] = sent.snapshot()
            continue
        devices, processes = sent.rows()
        named = {(process.pid, process.start_ticks) for process in known[devices[0]["mapping_seq"]].processes}
        assert {(row["pid"], row["start_ticks"]) for row in processes} <= named
    assert list(known) == list(range(1, len(known) + 1))
    assert {sent.topic for sent in one.outlet.of(SNAPSHOT)} == {POD_MAPPINGS}
    assert {sent.topic for sent in one.outlet.of(READING)} == {GPU_SAMPLES}
    taken = [snapshot.taken_us for snapshot in known.values()]
    assert max(later - earlier for earlier, later in pairwise(taken)) <= 60 * SECOND


def test_agent_clock_step_begins_a_new_epoch(rig: Any) -> None:
    """After the wall clock was set back an hour, sequence, snapshots and spans start anew and the reading says so."""
    one = rig(60)
    one.clock.at[31] = lambda: setattr(one.clock, "step_us", -3600 * SECOND)
    one.agent.run()
    readings = one.outlet.of(READING)
    epochs = sorted({sent.headers.epoch_us for sent in readings})
    assert len(epochs) == 2
    second = [sent for sent in readings if sent.headers.epoch_us == epochs[1]]
    assert [sent.headers.seq for sent in second] == list(range(1, len(second) + 1))
    rows = [sent.rows()[0][0] for sent in second]
    assert rows[0]["flags"] == FIRST_READING | CLOCK_STEP and rows[0]["mapping_seq"] == 1
    assert rows[1]["sample_count"] == 25 and rows[1]["flags"] == 0
    assert all(row["span_end_us"] < BOOT for row in rows)


def test_agent_full_queue_is_a_gap_in_the_sequence(rig: Any) -> None:
    """While the queue is full readings go on; their numbers are used, and a lost snapshot is followed by another."""
    one = rig(60)
    one.clock.at[11] = lambda: setattr(one.outlet, "full", True)
    one.clock.at[13] = lambda: setattr(one.library.gpus[0], "compute", [(7, 1, 0, 0), (8, 1, 0, 0)])
    one.clock.at[31] = lambda: setattr(one.outlet, "full", False)
    one.agent.run()
    assert [sent.headers.seq for sent in one.outlet.of(READING)] == [1, 2, 3, 8, 9, 10, 11, 12, 13]
    named = {sent.rows()[0][0]["mapping_seq"] for sent in one.outlet.of(READING)}
    assert named <= {sent.snapshot().mapping_seq for sent in one.outlet.of(SNAPSHOT)}


def test_agent_absent_kubelet_is_told(rig: Any) -> None:
    """While the kubelet is away the snapshots say so, with the grants that were known."""
    one = rig(60)
    one.clock.at[15] = lambda: setattr(one.kubelet, "away", True)
    one.agent.run()
    snapshots = [sent.snapshot() for sent in one.outlet.of(SNAPSHOT)]
    assert snapshots[0].grants_status == "ok" and snapshots[-1].grants_status == "unavailable"
    assert snapshots[-1].grants == snapshots[0].grants != []


def test_agent_asks_the_kubelet_again_for_a_new_container(rig: Any, tmp_path: Path) -> None:
    """A container that appears between two questions is asked for at once, and soon again."""
    one = rig(30)

    def appear() -> None:
        scope = tmp_path / "cgroup" / "kubepods" / "pod6a4ce4a0-ba47-11ea-b2a7-0cc47ac5979e" / ("a" * 64)
        scope.mkdir(parents=True)
        (scope / "cgroup.procs").write_text("")

    (tmp_path / "cgroup" / "kubepods").mkdir(parents=True)
    one.clock.at[13] = appear
    one.agent.run()
    assert [(at - 100 * SECOND) // SECOND for at in one.kubelet.asked] == [0, 10, 13, 15, 25]


def test_agent_gathers_readings_where_it_is_told(rig: Any) -> None:
    """With a flush period of 15 s three readings share a message, and none is lost at the end."""
    one = rig(40, AgentSettings(cluster="c", node="n", bootstrap_servers="none:1", flush_period_us=15 * SECOND))
    one.agent.run()
    sizes = [len(sent.rows()[0]) for sent in one.outlet.of(READING)]
    assert sizes == [3, 3, 3]
    assert [sent.headers.seq for sent in one.outlet.of(READING)] == [1, 2, 3]


def test_agent_waits_for_the_driver_and_then_gives_up(rig: Any) -> None:
    """A driver that is not loaded is asked at growing intervals; after ten minutes the process ends with the reason."""
    one = rig(2000)
    one.library.codes = {"nvmlInitWithFlags": 9}
    with pytest.raises(Stop, match="not been loaded"):
        one.agent.run()
    assert 600 <= (one.clock.now - 100 * SECOND) // SECOND <= 700
    assert one.library.calls["nvmlInitWithFlags"] < 25


def test_agent_refuses_a_foreign_pid_namespace(tmp_path: Path) -> None:
    """Where /proc shows another pid namespace than the host's, the agent does not start and says what to do."""
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to("pid:[4026532999]")
    settings = AgentSettings(cluster="c", node="n", bootstrap_servers="none:1", proc_path=str(tmp_path))
    with pytest.raises(Stop, match="hostPID"):
        build_agent(settings, Clock(1), Outlet())


def test_agent_leaves_mps_enumeration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable under which NVML's handles are not physical GPUs is gone before the driver is started."""
    monkeypatch.setenv("NVML_MPS_DEVICE_ENUMERATION", "1")
    (tmp_path / "sys" / "kernel" / "random").mkdir(parents=True)
    (tmp_path / "sys" / "kernel" / "random" / "boot_id").write_text("b\n")
    settings = AgentSettings(cluster="c", node="n", bootstrap_servers="none:1", proc_path=str(tmp_path))
    build_agent(settings, Clock(1), Outlet())
    assert "NVML_MPS_DEVICE_ENUMERATION" not in os.environ
