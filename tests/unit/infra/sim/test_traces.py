"""Traces in public formats, with small files made here."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from infra.sim.scenario import load_cluster
from infra.sim.traces import TraceError

START_US = 1_795_000_000_000_000 // 60_000_000 * 60_000_000
TICK_US = 57_000_000


def gentd(path: Path, rows: list[tuple[float, float, str]]) -> str:
    """A duty-cycle file as published: a CSV in a .tar.gz."""
    text = "value,timestamp_anon,container_ip\n" + "".join(f"{v},{t},{name}\n" for v, t, name in rows)
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("pod_gpu_duty_cycle_anon.csv")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def test_gentd_duty_at_a_tick_is_demand_until_the_next(tmp_path: Path) -> None:
    """Percent become demand from tick to tick, dates move to the start, a hole in the ticks ends the process."""
    ticks = [(50.0, 1000.0, "a"), (100.0, 1057.0, "a"), (25.0, 1228.0, "a"), (10.0, 1057.0, "b")]
    cluster, workload = load_cluster(
        "default", start_us=START_US, trace=gentd(tmp_path / "d_gpu_duty_cycle.tar.gz", ticks)
    )
    first, second = cluster.pods
    load = workload.loads[first.containers[0].processes[0].load]
    assert (load.times_us - START_US).tolist() == [0, TICK_US, 4 * TICK_US] and load.demand.tolist() == [0.5, 1.0, 0.25]
    lives = [(p.start_us - START_US, p.end_us and p.end_us - START_US) for p in first.containers[0].processes]
    assert lives == [(0, 2 * TICK_US), (4 * TICK_US, None)]
    assert first.containers[0].started_us == START_US and first.deleted_us is None
    assert second.containers[0].started_us == START_US + TICK_US
    assert second.containers[0].finished_us == START_US + 2 * TICK_US
    assert cluster.end_us == START_US + 5 * TICK_US


def test_gentd_pods_share_gpus_one_slot_each(tmp_path: Path) -> None:
    """Many containers are spread over three nodes of eight GPUs, never two on a slot, hours cut the trace."""
    ticks = [(7.0, 57.0 * tick, f"c{number}") for number in range(100) for tick in range(80)]
    path = gentd(tmp_path / "d.tar.gz", ticks)
    cluster, _ = load_cluster("default", start_us=START_US, trace=path, hours=1)
    slots = [slot for pod in cluster.pods for slot in pod.containers[0].slots]
    per_gpu = [sum(slot.startswith(gpu.uuid) for slot in slots) for node in cluster.nodes for gpu in node.gpus]
    assert len(cluster.nodes) == 3 and len(set(slots)) == 100 and set(per_gpu) == {4, 5}
    assert cluster.end_us - START_US == 3_600_000_000


def test_gentd_memory_file_beside_gives_memory(tmp_path: Path) -> None:
    """Where the memory file lies beside, a process keeps its median, at most its part of the GPU."""
    duty = gentd(tmp_path / "x_gpu_duty_cycle.csv", [])
    Path(duty).write_text("value,timestamp_anon,container_ip\n5,0,a\n5,57,a\n5,0,b\n")
    beside = tmp_path / "x_gpu_memory_used_bytes.csv"
    beside.write_text("timestamp_anon,value,container_ip\n0,1000,a\n57,3000,a\n0,9e12,b\n")
    cluster, _ = load_cluster("default", start_us=START_US, trace=duty)
    memory = [pod.containers[0].processes[0].memory_bytes for pod in cluster.pods]
    assert memory == [2000, 10 << 30]


def test_openb_pods_come_and_go_in_the_busiest_hours(tmp_path: Path) -> None:
    """Shares become slots, times move to the start, pods without a GPU or never scheduled are left out."""
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    header += "deletion_time,scheduled_time\n"
    rows = [
        "lone,1,1,1,500,,LS,Running,10,20,10",
        "cpu,1,1,0,0,,LS,Running,500000,500900,500000",
        "never,1,1,1,500,,LS,Pending,500000,500900,",
        "half,1,1,1,460,,LS,Running,500000,500900,500001",
        "pair,1,1,2,1000,,BE,Failed,500000,509000,500100",
    ]
    path = tmp_path / "openb.csv.gz"
    path.write_bytes(gzip.compress((header + "\n".join(rows) + "\n").encode()))
    cluster, workload = load_cluster("default", start_us=START_US, trace=str(path), hours=1)
    assert [pod.name for pod in cluster.pods] == ["half", "pair"] and workload.notes == ()
    half, pair = (pod.containers[0] for pod in cluster.pods)
    assert half.started_us == START_US and half.finished_us == START_US + 899_000_000 and len(half.slots) == 5
    assert len(pair.slots) == 20 and len(pair.processes) == 2 and pair.finished_us is None


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("x.csv", b"a,b\n1,2\n", "neither format"),
        ("x.csv", b"", "neither format"),
        ("x.csv.gz", b"not gzip", "cannot be read"),
        ("x.tar.gz", b"not tar", "cannot be read"),
        ("x.csv", b"value,timestamp_anon,container_ip\n", "no rows"),
        ("x.csv", b"value,timestamp_anon,container_ip\nabc,1,x\n", "abc"),
        ("x.csv", b"\xff\xfe", "cannot be read"),
    ],
)
def test_trace_that_cannot_be_used_is_told(tmp_path: Path, name: str, data: bytes, told: str) -> None:
    """A file of another kind, empty, broken or with other text than numbers is refused by name and reason."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises(TraceError, match=told) as error:
        load_cluster("default", start_us=START_US, trace=str(tmp_path / name))
    assert name in str(error.value)


def test_missing_trace_is_told() -> None:
    """A path that is not there is refused by name."""
    with pytest.raises(TraceError, match=r"nowhere\.csv"):
        load_cluster("default", start_us=START_US, trace="nowhere.csv")
