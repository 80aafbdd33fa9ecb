"""Every form of cgroup path that is known from the field, and what it names."""

import pytest

from collector.cgroup import CgroupIdentity, identity_of

A = "88ea268e3d1d7ff5a8a4e8d3a1f6dbb1b4d40b6fcd88f0d10bdbe0e2a4a20f11"
B = "17db96a24ae1b0f1f3d9d4a1c3a3fce0dffbf2a05b3c1d8c40ec2c2a54e07c1a"
U = "6a4ce4a0-ba47-11ea-b2a7-0cc47ac5979e"
U2 = "0ec90011-b5ae-4efc-8a54-d9fc34119605"
S = U.replace("-", "_")
H = "b1e89a2fcc688644de3eb95aee8025ce"

TABLE = {
    "1 v1 cgroupfs burstable": (f"11:devices:/kubepods/burstable/pod{U}/{B}", U, B),
    "2 v1 cgroupfs guaranteed": (f"4:memory:/kubepods/pod{U}/{B}", U, B),
    "2 EKS AL2 burstable": (f"3:cpuset:/kubepods/burstable/pod{U}/{B}", U, B),
    "3 v1 systemd CRI-O": (
        "1:name=systemd:/kubepods.slice/kubepods-burstable.slice/"
        f"kubepods-burstable-pod{S}.slice/crio-{B}.scope", U, B),
    "4 v1 systemd docker guaranteed": (f"9:freezer:/kubepods.slice/kubepods-pod{S}.slice/docker-{B}.scope", U, B),
    "5 v2 systemd containerd": (
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{S}.slice/cri-containerd-{B}.scope", U, B),
    "5b guaranteed": (f"0::/kubepods.slice/kubepods-pod{S}.slice/cri-containerd-{B}.scope", U, B),
    "6 v2 cri-dockerd": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{S}.slice/docker-{B}.scope", U, B),
    "7 v2 CRI-O with crun": (f"0::/kubepods.slice/kubepods-pod{S}.slice/crio-{B}.scope/container", U, B),
    "8 CRI-O monitor": (f"0::/kubepods.slice/kubepods-pod{S}.slice/crio-conmon-{B}.scope", U, ""),
    "9 driver mismatch, containerd.service": (
        f"1:name=systemd:/system.slice/containerd.service/kubepods-burstable-pod{S}.slice:cri-containerd:{B}", U, B),
    "10 driver mismatch, bare": (f"11:perf_event:/kubepods-besteffort-pod{S}.slice:cri-containerd:{B}", U, B),
    "10b mismatch and static pod": (
        f"0::/system.slice/containerd.service/kubepods-burstable-pod{H}.slice:cri-containerd:{B}", H, B),
    "11 kind, in the node": (f"0::/kubelet/kubepods/besteffort/pod{U}/{B}", U, B),
    "12 kind systemd and static pod": (
        "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{H}.slice/cri-containerd-{B}.scope", H, B),
    "13 kind from the host, v1": (f"14:name=systemd:/docker/{A}/kubelet/kubepods/burstable/pod{U}/{B}", U, B),
    "14 kind from the host, v2": (
        f"0::/system.slice/docker-{A}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{S}.slice/"
        f"cri-containerd-{B}.scope", U, B),
    "15 docker in a pod": (f"5:cpu:/kubepods/burstable/pod{U}/{A}/docker/{B}", U, A),
    "16 kubelet in a pod": (f"5:cpu:/kubepods/burstable/pod{U}/{A}/k3s/kubepods/besteffort/pod{U2}/{B}", U, A),
    "17 reader in its own cgroup namespace": (
        f"0::/../../kubepods-burstable-pod{S}.slice/cri-containerd-{B}.scope", U, B),
    "18 the same, static pod": (f"0::/../../pod{H}/{B}", H, B),
    "19 the same, sibling of the reader": (f"0::/../crio-{B}.scope", "", B),
    "20 the same, itself": ("0::/", "", ""),
    "21 hybrid": (f"11:devices:/kubepods/burstable/pod{U}/{B}\n0::/", U, B),
    "21 a controller outside the pod": (
        f"11:files:/\n13:freezer:/kubepods.slice/kubepods-pod{S}.slice/cri-containerd-{B}.scope\n0::/", U, B),
    "22 plain docker": (f"0::/system.slice/docker-{B}.scope", "", B),
    "22 podman": (f"0::/machine.slice/libpod-{B}.scope/container", "", B),
    "22 slurm": ("4:devices:/slurm/uid_1000/job_42/step_0", "", ""),
    "22 host": ("0::/user.slice/user-1000.slice/session-3.scope", "", ""),
    "static pod, cgroupfs": (f"4:memory:/kubepods/burstable/pod{H}/{B}", H, B),
    "relative v1": (f"4:memory:/../../pod{U}/{B}", U, B),
    "other slice beside": (
        f"8:cpu:/kubepods/burstable/pod{U}/{B}\n0::/reserved.slice/containerd.service", U, B),
    "lxc payload": ("0::/lxc.payload.node1/init.scope", "", ""),
    "escaped unit": (r"0::/system.slice/system-serial\x2dgetty.slice", "", ""),
    "gone but not reaped": (
        f"0::/kubepods.slice/kubepods-pod{S}.slice/cri-containerd-{B}.scope (deleted)", U, B),
    "podruntime": ("0::/podruntime/runtime", "", ""),
    "empty": ("", "", ""),
    "no cgroup line": ("garbage\nwithout colons", "", ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "pod_uid", "container_id"), TABLE.values(), ids=TABLE.keys())
def test_cgroup_names_pod_and_container(text: str, pod_uid: str, container_id: str) -> None:
    """Each form names the outer pod and its workload container, and a host's process names none."""
    assert identity_of(text) == CgroupIdentity(pod_uid, container_id)


def test_cgroup_lines_in_any_order() -> None:
    """The order of the controllers' lines decides nothing."""
    lines = [f"11:devices:/kubepods/burstable/pod{U}/{B}", "0::/", f"5:cpu:/system.slice/docker-{A}.scope", "3:x:/a"]
    assert {identity_of("\n".join(lines[n:] + lines[:n])) for n in range(4)} == {CgroupIdentity(U, B)}
