"""Which pod and container a cgroup path names. Pure: text in, identity out.

Law: every form that kubelet, container runtimes and their drivers write gives the same answer to the same process:
the outer pod, its workload container, never the monitor or the node's own container. The table of forms is the test
(tests/unit/collector/test_cgroup.py). Sources: kubelet cgroup_manager_linux.go, containerd getCgroupsPath, CRI-O.
"""

import re
from typing import NamedTuple

_POD = re.compile(
    r"(?:^|[/\-])pod"
    r"([0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12}|[0-9a-f]{32})"
    r"(?![0-9a-f])"
)
_CONTAINER = re.compile(r"(conmon-)?(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")


class CgroupIdentity(NamedTuple):
    """Pod uid (of a static pod: the hash of its configuration) and container id; empty where the path names none."""

    pod_uid: str
    container_id: str

    @property
    def is_container(self) -> bool:
        """Whether the path names a container or a pod at all; if not, it is a host's process."""
        return bool(self.pod_uid or self.container_id)


def identity_of_path(path: str) -> CgroupIdentity:
    """Identity that one cgroup path names; the first pod is the outer one, the first id after it its container."""
    pod = _POD.search(path)
    container = _CONTAINER.search(path, pod.end() if pod else 0)
    pod_uid = pod[1].replace("_", "-") if pod else ""
    return CgroupIdentity(pod_uid, container[2] if container and not container[1] else "")


def identity_of(text: str) -> CgroupIdentity:
    """Identity that the text of /proc/PID/cgroup names.

    v1 has a line for each controller and hybrid adds `0::/`: the line that names most counts, pod before container.
    """
    paths = {line.split(":", 2)[-1] for line in text.splitlines() if line.count(":") >= 2}
    found = [identity_of_path(path) for path in sorted(paths)]
    return max(found, key=lambda one: (bool(one.pod_uid), bool(one.container_id)), default=CgroupIdentity("", ""))
