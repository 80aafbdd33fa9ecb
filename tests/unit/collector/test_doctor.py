"""The node's doctor on a scripted driver, a kubelet's answers and real files: each fault is told by its check."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector import podresources_pb2 as pb
from collector.doctor.cli import main
from collector.doctor.host import file_system_of
from collector.errors import Retry
from collector.kubelet import ALLOCATABLE, LIST
from collector.kubelet_grpc import GrpcError
from collector.procfs import INIT_PID_NAMESPACE

POD = "6a4ce4a0_ba47_11ea_b2a7_0cc47ac5979e"
GROUP = f"kubepods.slice/kubepods-pod{POD}.slice/cri-containerd-{'1c' * 32}.scope"
CHECKS = [
    "settings", "mps enumeration", "pid namespace", "proc", "cgroups", "spool", "driver library", "driver version",
    "gpus", "mig", "process lists", "utilisation samples", "process utilisation", "memory", "energy", "kubelet",
    "granted devices",
]  # fmt: skip


class Node:
    """A healthy node below `root` with one GPU and one pod; a test breaks a part of it."""

    def __init__(self, root: Path, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.library, self.monkeypatch = root, library, monkeypatch
        self.listed, self.allocatable = pb.ListPodResourcesResponse(), pb.AllocatableResourcesResponse()
        self.raised: dict[str, Exception] = {}
        for name, value in self._files().items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(value)
        (root / "proc/self/ns").mkdir()
        (root / "proc/self/ns/pid").symlink_to(INIT_PID_NAMESPACE)
        for name, value in self._environment().items():
            monkeypatch.setenv(f"GPUMETER_{name}", value)
        monkeypatch.delenv("NVML_MPS_DEVICE_ENUMERATION", raising=False)
        gpu = library.gpus[0]
        gpu.samples, gpu.utilisation = [(1000, 50)], [(7, 1000, 50, 0, 0, 0)]
        gpu.compute = [(7, 1 << 30, 0xFFFFFFFF, 0xFFFFFFFF)]
        container = self.listed.pod_resources.add(name="p", namespace="n").containers.add(name="c")
        container.devices.add(resource_name="nvidia.com/gpu", device_ids=["GPU-0"])
        self.allocatable.devices.add(resource_name="nvidia.com/gpu", device_ids=["GPU-0"])
        monkeypatch.setattr("collector.kubelet.unary_call", self._call)

    @staticmethod
    def _files() -> dict[str, str]:
        return {
            "proc/1/stat": f"1 (init) S {' '.join(['1'] * 18)} 100 0\n",
            "proc/1/cgroup": "0::/init.scope\n",
            "proc/sys/kernel/random/boot_id": "b007\n",
            "proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n",
            "cgroup/cgroup.controllers": "cpu pids\n",
            f"cgroup/{GROUP}/cgroup.procs": "7\n",
            "spool/.kept": "",
        }

    def _environment(self) -> dict[str, str]:
        return {
            "CLUSTER": "c", "NODE": "n", "BOOTSTRAP_SERVERS": "none:1", "PROC_PATH": f"{self.root}/proc",
            "CGROUP_PATH": f"{self.root}/cgroup", "SPOOL_PATH": f"{self.root}/spool", "SPOOL_BYTES": str(16 << 20),
        }  # fmt: skip

    def _call(self, socket_path: str, method: str, request: bytes, timeout_s: float) -> bytes:
        if method in self.raised:
            raise self.raised[method]
        return {LIST: self.listed, ALLOCATABLE: self.allocatable}[method].SerializeToString()

    def away(self, cause: Exception, text: str) -> None:
        """The kubelet's socket fails as the client tells it."""
        self.raised[LIST] = Retry(text)
        self.raised[LIST].__cause__ = cause


@pytest.fixture
def node(tmp_path: Path, library: Any, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A healthy node."""
    return Node(tmp_path, library, monkeypatch)


def _found(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    code = main(["--json"])
    return code, {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}


def test_healthy_node_is_all_ok(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """On a healthy node every check is there, ok, with what it saw and without a cost, and the exit code is 0."""
    code, found = _found(capsys)
    assert list(found) == CHECKS
    assert {name: finding["seen"] for name, finding in found.items() if finding["state"] != "ok"} == {}
    assert all(finding["seen"] and not finding["cost"] and not finding["fix"] for finding in found.values())
    assert code == 0


def _relink(node: Node) -> None:
    (node.root / "proc/self/ns/pid").unlink()
    (node.root / "proc/self/ns/pid").symlink_to("pid:[4026532000]")


def _strange_group(node: Node) -> None:
    (node.root / "cgroup" / GROUP).rename(node.root / "cgroup/kubepods.slice/unheard-of")
    (node.root / "cgroup/kubepods.slice" / f"kubepods-pod{POD}.slice").rmdir()


def _mig(node: Node, status: int) -> None:
    node.library.gpus[0].mig_mode = 1
    node.library.codes |= {"nvmlDeviceGetSamples": 3, "nvmlDeviceGetProcessUtilization": 3}
    if status:
        node.library.codes["nvmlDeviceGetComputeRunningProcesses_v3"] = status


def _spool_at(path: str) -> Callable[[Node], None]:
    return lambda node: node.monkeypatch.setenv("GPUMETER_SPOOL_PATH", path.format(node.root))


def _on_tmpfs(node: Node) -> None:
    (node.root / "proc/self/mounts").write_text(f"/dev/sda1 / ext4 rw 0 0\ntmpfs {node.root} tmpfs rw 0 0\n")


def _code(call: str, code: int) -> Callable[[Node], None]:
    return lambda node: node.library.codes.update({call: code})


def _refused(node: Node) -> None:
    node.away(PermissionError(), "kubelet.sock: Permission denied")


FAULTS: dict[str, tuple[str, str, str, Callable[[Node], object]]] = {
    "unknown setting": (
        "settings", "fault", "GPUMETER_SPOLL", lambda n: n.monkeypatch.setenv("GPUMETER_SPOLL_PATH", "/x")
    ),
    "missing setting": ("settings", "fault", "CLUSTER: missing", lambda n: n.monkeypatch.delenv("GPUMETER_CLUSTER")),
    "mps enumeration": (
        "mps enumeration", "warning", "'1'", lambda n: n.monkeypatch.setenv("NVML_MPS_DEVICE_ENUMERATION", "1")
    ),
    "no hostPID": ("pid namespace", "fault", "4026532000", _relink),
    "hidepid": ("proc", "fault", "no stat", lambda n: (n.root / "proc/1/stat").unlink()),
    "no boot id": ("proc", "fault", "boot_id", lambda n: (n.root / "proc/sys/kernel/random/boot_id").unlink()),
    "broken stat": ("proc", "fault", "ValueError", lambda n: (n.root / "proc/1/stat").write_text("nonsense")),
    "no cgroup tree": ("cgroups", "fault", "no cgroup", lambda n: (n.root / "cgroup/cgroup.controllers").unlink()),
    "unknown cgroup form": ("cgroups", "fault", "v2 and not one", _strange_group),
    "spool is a file": ("spool", "fault", "not a directory", _spool_at("{}/proc/1/stat")),
    "spool read-only": ("spool", "fault", "cannot be written", _spool_at("/proc/1")),
    "no spool": ("spool", "warning", "empty", _spool_at("")),
    "small disk": ("spool", "warning", "free", lambda n: n.monkeypatch.setenv("GPUMETER_SPOOL_BYTES", str(1 << 60))),
    "spool on tmpfs": ("spool", "warning", "tmpfs", _on_tmpfs),
    "no library": ("driver library", "fault", "code 12", _code("nvmlInitWithFlags", 12)),
    "driver not loaded": ("driver library", "fault", "code 9", _code("nvmlInitWithFlags", 9)),
    "garbled lists": ("driver version", "fault", "535.54", lambda n: setattr(n.library, "driver_version", "535.54.03")),
    "no GPU": ("gpus", "fault", "no GPU", lambda n: n.library.gpus.clear()),
    "GPU forbidden": ("gpus", "fault", "no permission", _code("nvmlDeviceGetHandleByIndex_v2", 4)),
    "GPU lost": ("gpus", "fault", "GPU-0): NVML code 15", _code("nvmlDeviceGetSamples", 15)),
    "MIG monitor missing": ("mig", "fault", "on; process lists", lambda n: _mig(n, 4)),
    "MIG": ("mig", "warning", "no utilisation", lambda n: _mig(n, 0)),
    "lists forbidden": ("process lists", "fault", "no perm", _code("nvmlDeviceGetComputeRunningProcesses_v3", 4)),
    "no samples": ("utilisation samples", "fault", "not supported", _code("nvmlDeviceGetSamples", 3)),
    "ring empty": ("utilisation samples", "warning", "ring is empty", lambda n: n.library.gpus[0].samples.clear()),
    "no process use": ("process utilisation", "fault", "no perm", _code("nvmlDeviceGetProcessUtilization", 4)),
    "no memory": ("memory", "warning", "GPU-0", _code("nvmlDeviceGetMemoryInfo_v2", 3)),
    "no energy": ("energy", "warning", "not supported", _code("nvmlDeviceGetTotalEnergyConsumption", 3)),
    "no socket": ("kubelet", "fault", "no such", lambda n: n.away(FileNotFoundError(), "k.sock: no such socket")),
    "socket refused": ("kubelet", "fault", "Permission denied", _refused),
    "kubelet silent": ("kubelet", "fault", "within", lambda n: n.away(TimeoutError(), "no answer within 2 s")),
    "claims": (
        "granted devices", "warning", "DRA",
        lambda n: n.listed.pod_resources[0].containers[0].dynamic_resources.add().claim_resources.add(),
    ),
    "no slots told": (
        "granted devices", "warning", "status 13", lambda n: n.raised.update({ALLOCATABLE: GrpcError("status 13", 13)})
    ),
    "stranger granted": ("granted devices", "warning", "GPU-9", lambda n: n.listed.pod_resources[0].containers[0]
        .devices.add(resource_name="nvidia.com/gpu", device_ids=["GPU-9"])),
}  # fmt: skip
"""What is broken: the check that must tell it, as what, with which word of evidence, and how to break it."""


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named_by_its_check(name: str, node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """Each planted fault is told by its own check with evidence, cost and one fix; 1 where a fault, 0 for warnings."""
    check, state, word, plant = FAULTS[name]
    plant(node)
    code, found = _found(capsys)
    assert (found[check]["state"], code) == (state, int(state == "fault"))
    assert word in found[check]["seen"]
    assert found[check]["cost"] and found[check]["fix"].endswith(".")
    others = {other for other, finding in found.items() if finding["state"] == "fault" and other != check}
    assert not others


def test_kubelet_without_devices_is_a_warning(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """A kubelet that answers and names no GPU at all is told apart from one that granted nothing."""
    node.listed.Clear()
    assert _found(capsys)[1]["granted devices"]["state"] == "ok"
    node.allocatable.Clear()
    code, found = _found(capsys)
    assert (code, found["kubelet"]["state"], found["granted devices"]["state"]) == (0, "ok", "warning")


def test_fix_fits_the_way_it_failed(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """What may not be opened or asked wants rights, not a mount; what is not supported wants nothing."""
    _refused(node)
    _code("nvmlDeviceGetSamples", 3)(node)
    _code("nvmlDeviceGetProcessUtilization", 4)(node)
    found = _found(capsys)[1]
    assert "root" in found["kubelet"]["fix"]
    assert "None in software" in found["utilisation samples"]["fix"]
    assert "privileged" in found["process utilisation"]["fix"]


def test_check_that_raises_is_a_fault(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a check raises becomes its fault with the exception's name, and the other checks are still made."""

    def broken(*_: object) -> int:
        raise OverflowError("odd")

    node.monkeypatch.setattr("collector.nvml.memory_bytes", broken)
    node.monkeypatch.setattr("collector.doctor.host.Containers", broken)
    code, found = _found(capsys)
    assert code == 1
    assert {name for name, one in found.items() if "OverflowError: odd" in one["seen"]} == {"cgroups", "driver library"}
    assert found["kubelet"]["state"] == "ok"


def test_one_bad_setting_leaves_the_others_in_force(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """With one setting that cannot be read the checks still look where the other settings say."""
    node.monkeypatch.setenv("GPUMETER_NVML_PERIOD_US", "soon")
    found = _found(capsys)[1]
    assert "NVML_PERIOD_US" in found["settings"]["seen"]
    assert str(node.root) in found["cgroups"]["seen"]


@pytest.mark.parametrize(("folders", "version"), [(("pids/x",), "v1"), (("pids/x", "unified/x"), "hybrid"), ((), "v2")])
def test_cgroup_version_is_told(
    folders: tuple[str, ...], version: str, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """v1, v2 and hybrid trees are told apart, and containers are found in each."""
    tree = node.root / "cgroup"
    if folders:
        (tree / "cgroup.controllers").unlink()
        for folder in folders:
            (tree / folder).mkdir(parents=True)
        (tree / "kubepods.slice").rename(tree / "pids/kubepods.slice")
    if version == "hybrid":
        (tree / "unified/cgroup.controllers").write_text("")
    found = _found(capsys)[1]["cgroups"]
    assert found["state"] == "ok"
    assert f"is {version}: 1 containers" in found["seen"]


def test_file_system_of_takes_the_deepest_and_latest_mount() -> None:
    """A path lies on the deepest mount above it, and of two at one place on the later."""
    mounts = "o / overlay rw\nd /var ext4 rw\nt /var/a\\040b tmpfs rw\nx /var/a\\040b xfs rw\n"
    assert [file_system_of(Path(path), mounts) for path in ("/var/a b/c", "/var/x", "/opt")] == [
        "xfs",
        "ext4",
        "overlay",
    ]


def test_text_names_cost_and_fix(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """As text each check has its line, and below one that is not ok stand what it costs and its fix."""
    _relink(node)
    assert main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("FAULT    pid namespace"))
    assert any("costs" in line for line in lines[at : at + 4])
    assert any("hostPID: true" in line for line in lines[at : at + 8])
    assert lines[-1] == "16 ok, 0 warnings, 1 faults"


def test_doctor_process_stays_light_and_tells_a_bare_machine() -> None:
    """As a process of its own, with nothing set, it ends with 1, no traceback, and loads nothing heavy."""
    code = (
        "import sys; from infra.cli.main import main; code = main(['doctor', '--json']); "
        "print('LOADED', *sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={}, capture_output=True, text=True, timeout=60)
    said, _, loaded = done.stderr.rpartition("LOADED")
    assert (done.returncode, said) == (1, "")
    assert "settings" in {one["check"] for one in json.loads(done.stdout) if one["state"] == "fault"}
    heavy = {"pyarrow", "confluent_kafka", "typer", "rich", "prometheus_client", "nanoarrow", "numpy"}
    assert "collector.doctor.node" in loaded.split()
    assert not heavy & set(loaded.split())


def test_help_has_an_example_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """--help says where to run it and what its exit codes mean."""
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert "Example:" in text and "Exit codes:" in text
