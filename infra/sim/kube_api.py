"""The API server of the simulated cluster, as far as a watcher uses it: list, watch and patch on 127.0.0.1.

Owns which facts are already visible; must not know who asks. Faults are switches. In lock-step the time of whoever
annotates its own pod with the clock is the time that counts: changes up to it become visible just before, whatever
the coordinator's step. Laws: tests/contracts/test_kube_api.py.
"""

import re
import ssl
import threading
from urllib.parse import parse_qs, urlsplit

import msgspec

from infra.sim.kube_http import KubeHttp, KubeServer
from infra.sim.kube_log import Expired, KubeLog
from infra.sim.kube_objects import NODES, PODS, Change, Json, changes, pod_object
from infra.sim.model import SimCluster, SimContainer, SimPod

CLOCK_ANNOTATION = "gpumeter.dev/clock"
WATCHER_NAMESPACE, WATCHER_POD = "gpumeter", "gpumeter-watcher-0"
_ONE = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)")
_RESOURCES = {"/api/v1/pods": PODS, "/api/v1/nodes": NODES}
_KINDS = {PODS: "PodList", NODES: "NodeList"}


def watcher_pod(start_us: int, node: str = "control-plane") -> SimPod:
    """The pod that the watcher itself runs in."""
    container = SimContainer("watcher", "57a7c4e5" * 8, start_us, None)
    return SimPod(
        uid="0a7c4e50-0000-4000-8000-000000000000",
        namespace=WATCHER_NAMESPACE,
        name=WATCHER_POD,
        node=node,
        created_us=start_us,
        deleted_us=None,
        containers=(container,),
        owner_kind="StatefulSet",
        owner_name="gpumeter-watcher",
    )


class KubeApi:
    """Facts of a cluster up to a time, served over HTTP; `start` and `stop` as often as wanted, the state stays."""

    def __init__(self, cluster: SimCluster, *, follow_clock: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.log = KubeLog()
        self.horizon_us = cluster.start_us
        """In lock-step: no change after this time is made visible, whatever the annotation says."""
        self.token = ""
        """Bearer token to be shown; empty: none."""
        self.refuse_status = 0
        """HTTP status with which every call is refused; 0: none."""
        self.lost_patches = 0
        """So many patches are answered and not applied."""
        self.bookmark_s = 60.0
        self.watches = 0
        """Generation of watches: a watch of an older one ends."""
        self._follow_clock = follow_clock
        self._tls = tls
        self._pending: list[Change] = changes(cluster)[::-1]
        self._lock = threading.Lock()
        self._server: KubeServer | None = None
        self._port = 0
        own = watcher_pod(cluster.start_us)
        self.log.put("ADDED", PODS, pod_object(own, cluster.start_us))
        self.reveal(cluster.start_us)

    def start(self) -> str:
        """Listens on 127.0.0.1, on the same port each time; its URL."""
        self._server = KubeServer(("127.0.0.1", self._port), KubeHttp, self, self._tls)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="kube-api", daemon=True).start()
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def stop(self) -> None:
        """Stops listening and cuts every connection."""
        if self._server is not None:
            self.drop_watches()
            self._server.shutdown()
            self._server.server_close()
            self._server.cut()
            self._server = None

    def drop_watches(self) -> None:
        """Ends every open watch, as a server that is restarted or short of memory does."""
        with self.log.changed:
            self.watches += 1
            self.log.changed.notify_all()

    def advance(self, now_us: int) -> None:
        """The coordinator's time: facts up to it may be seen, and are seen at once unless the clock is followed."""
        self.horizon_us = max(self.horizon_us, now_us)
        if not self._follow_clock:
            self.reveal(now_us)

    def reveal(self, now_us: int) -> None:
        """Makes every change up to `now_us` visible."""
        with self._lock:
            while self._pending and self._pending[-1].time_us <= now_us:
                change = self._pending.pop()
                self.log.put(change.type, change.resource, change.content)

    def listing(self, resource: str, query: dict[str, str]) -> Json:
        """A list, or a chunk of one; Expired where its token is too old."""
        limit, token = int(query.get("limit", "0")), query.get("continue", "")
        version, items, rest = self.log.next_chunk(token, limit) if token else self.log.first_chunk(resource, limit)
        meta = {"resourceVersion": str(version)} | ({"continue": rest} if rest else {})
        return {"kind": _KINDS[resource], "apiVersion": "v1", "metadata": meta, "items": items}

    def patch(self, key: str, patch: Json) -> Json | None:
        """Merges annotations into a pod; None where there is no such pod."""
        annotations = patch.get("metadata", {}).get("annotations", {})
        told_us = annotations.get(CLOCK_ANNOTATION)
        if told_us is not None and self._follow_clock:
            self.reveal(min(int(told_us), self.horizon_us))
        pod = self.log.get(PODS, key)
        if pod is None:
            return None
        if self.lost_patches:
            self.lost_patches -= 1
            return pod
        merged = {**pod["metadata"].get("annotations", {}), **annotations}
        meta = {**pod["metadata"], "annotations": {name: value for name, value in merged.items() if value is not None}}
        return self.log.put("MODIFIED", PODS, {**pod, "metadata": meta})

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Json] | tuple[str, dict[str, str]]:
        """Status and object of a call, or resource and query of a watch that the HTTP side has to serve."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        resource, one = _RESOURCES.get(parts.path), _ONE.fullmatch(parts.path)
        if resource and method == "GET":
            if query.get("watch") in ("1", "true"):
                return resource, query
            try:
                return 200, self.listing(resource, query)
            except Expired as error:
                return 410, failure(410, "Expired", str(error))
        if one is None or method not in ("GET", "PATCH"):
            return 404, failure(404, "NotFound", f"the server could not find {method} {parts.path}")
        key = f"{one[1]}/{one[2]}"
        pod = self.patch(key, msgspec.json.decode(body)) if method == "PATCH" else self.log.get(PODS, key)
        return (200, pod) if pod else (404, failure(404, "NotFound", f'pods "{one[2]}" not found'))


def failure(code: int, reason: str, message: str) -> Json:
    """The API server's error object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
