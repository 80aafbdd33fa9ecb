"""E. PID namespaces, cgroups, identity."""

import pytest

from tests.field.gpu import SECOND, Load
from tests.field.node import CONTAINER_A, NONE, UID_A, Node, cgroup


def test_field_case_30_cgroupfs_form_with_dashes(node: Node) -> None:
    """A pod under the cgroupfs driver is found, whose uid has dashes and no slice (dcgm-exporter#347, DCGM#175)."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, f"12:devices:/kubepods/besteffort/pod{UID_A}/{CONTAINER_A}")
    node[0].loads = [Load(10, 50)]
    assert node.run().of("a", 60).sum("used_us") == 30 * SECOND


def test_field_case_32_rows_name_the_user_not_the_collector(node: Node) -> None:
    """The collector's own pod, which sees every GPU, has no row; the pod that uses one has (dcgm-exporter#27)."""
    node.pod("collector", requests=0)
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    node[0].loads = [Load(10, 50)]
    assert node.run().holders(60) == {"a"}


def test_field_case_31_process_that_is_not_in_proc(node: Node) -> None:
    """A pid of the driver without a /proc entry is unattributed with its reason, not dropped (dcgm-exporter PR#503)."""
    node[0].compute = [(114855, 1 << 30, NONE, NONE)]
    node[0].loads = [Load(114855, 50)]
    nobody = node.run().of("unattributed", 60)
    assert nobody.sum("used_us") == 30 * SECOND and nobody.flags() == {"unmapped"}
    assert nobody.sum("memory_byte_ms") == (1 << 30) * 60_000


def test_field_case_34_static_pod_by_its_hash(node: Node) -> None:
    """A static pod's cgroup names its configuration's hash; its rows have the API's uid (vector#6001, pixie#399)."""
    config = "3e61c214bc3ed9ff81e21474dd6cba17"
    node.pod("a", hash_=config, requests=0)
    node.process(10, f"0::/kubepods.slice/kubepods-pod{config}.slice/cri-containerd-{'c' * 64}.scope")
    node[0].loads = [Load(10, 50)]
    (row,) = node.run().of("a", 60)
    assert row["used_us"] == 30 * SECOND and row["pod_name"] == "a" and "container_unknown" in row["flags"]


def test_field_case_36_cgroups_of_the_host_alone(node: Node) -> None:
    """Where only the host's /proc tells the cgroup, use lands on the pod, not on the system (kepler#923)."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, cgroup("a"))
    for path in sorted((node.root / "cgroup").rglob("cgroup.procs")):
        path.unlink()
    node[0].loads = [Load(10, 50)]
    rows = node.run()
    assert rows.of("a", 60).sum("used_us") == 30 * SECOND and not rows.of("host")


def test_field_case_37_used_without_a_request(node: Node) -> None:
    """A pod that asked for no GPU and a login shell are metered, the pod's use is flagged (DCGM#241, #521)."""
    node.pod("a", requests=0)
    node.process(10, cgroup("a"))
    node.process(11, "0::/user.slice/user-1000.slice/session-3.scope")
    node[0].loads = [Load(10, 50), Load(11, 20)]
    rows = node.run()
    assert rows.of("a", 60).sum("used_us") == 30 * SECOND and rows.of("a", 60).flags() == {"unrequested"}
    assert rows.of("host", 60).sum("used_us") == 12 * SECOND
    assert rows.of("unallocated", 60).sum("charged_us") == 18 * SECOND


def test_field_case_38_pod_of_the_same_name_again(node: Node) -> None:
    """web-0 that was deleted and made anew two seconds later is two pods (kube-state-metrics#1259, opencost#991)."""
    node.pod("web-0", end_s=100, seen_s=101, tag="first")
    node.pod("web-0", start_s=102, seen_s=103, tag="second")
    node.grant("web-0", "GPU-0")
    node.process(10, cgroup("first"))
    node[0].loads = [Load(10, 50, 0, 100), Load(11, 50, 102)]

    def again() -> None:
        node.gone(10)
        node.process(11, cgroup("second"), start_s=102)

    node.at[101] = again
    rows = node.run().of("web-0", 60)
    held = {row["pod_uid"]: row["held_us"] for row in rows}
    used = [row["used_us"] for row in rows]
    assert len(held) == 2 and sorted(held.values()) == [18 * SECOND, 40 * SECOND]
    assert all(
        abs(us - expected) <= 400_000 for us, expected in zip(sorted(used), (9 * SECOND, 20 * SECOND), strict=True)
    )


U, H, OTHER = UID_A, CONTAINER_A, "f" * 64
U_ = U.replace("-", "_")
BESTEFFORT, BURSTABLE = "kubepods-besteffort", "kubepods-burstable"
KIND = f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{U_}.slice/cri-containerd-{H}.scope"
INNER = "kubepods/besteffort/pod22222222-0000-4000-8000-000000000002"
PATHS = {
    "v1_cgroupfs": f"11:devices:/kubepods/burstable/pod{U}/{H}",
    "guaranteed_systemd": f"0::/kubepods.slice/kubepods-pod{U_}.slice/cri-containerd-{H}.scope",
    "crun_sub_cgroup": f"0::/kubepods.slice/{BESTEFFORT}.slice/{BESTEFFORT}-pod{U_}.slice/crio-{H}.scope/container",
    "driver_mismatch": f"1:name=systemd:/system.slice/containerd.service/{BURSTABLE}-pod{U_}.slice:cri-containerd:{H}",
    "kind_host_view": f"0::/docker/{OTHER}/{KIND}",
    "kind_on_systemd_docker": f"0::/system.slice/docker-{OTHER}.scope/{KIND}",
    "relative": f"0::/../../pod{U}/{H}",
    "docker_in_a_pod": f"5:cpu:/kubepods/burstable/pod{U}/{H}/docker/{OTHER}",
    "kubernetes_in_a_pod": f"5:cpu:/kubepods/burstable/pod{U}/{H}/k3s/{INNER}/{OTHER}",
}
HOSTS = {
    "podman": f"0::/machine.slice/libpod-{OTHER}.scope/container",
    "root_of_a_namespace": "0::/",
}


@pytest.mark.parametrize("form", PATHS)
def test_field_case_33_path_names_the_pod(node: Node, form: str) -> None:
    """Every form of cgroup path gives use to the pod's own container (kubectl-trace#174 and others)."""
    node.pod("a")
    node.grant("a", "GPU-0")
    node.process(10, PATHS[form])
    node[0].loads = [Load(10, 50)]
    (row,) = node.run().of("a", 60)
    assert (row["pod_uid"], row["container_name"], row["used_us"]) == (U, "main", 30 * SECOND)


@pytest.mark.parametrize("form", HOSTS)
def test_field_case_33_path_names_no_pod(node: Node, form: str) -> None:
    """A container or process of the node itself is the host's (pai#2335)."""
    node.process(10, HOSTS[form])
    node[0].loads = [Load(10, 50)]
    assert node.run().of("host", 60).sum("used_us") == 30 * SECOND
