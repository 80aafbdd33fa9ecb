"""The API server port: what lists, watches and patches promise, asked over HTTP as any client would."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from infra.sim.kube_api import WATCHER_NAMESPACE, WATCHER_POD, KubeApi
from infra.sim.model import SimCluster, SimContainer, SimNode, SimPod

S = 1_000_000
OWN = f"/api/v1/namespaces/{WATCHER_NAMESPACE}/pods/{WATCHER_POD}"


def _pod(uid: str, name: str, start: int, deleted: int | None) -> SimPod:
    container = SimContainer("main", uid * 64, start * S, None)
    return SimPod(uid, "team", name, "n1", start * S, None if deleted is None else deleted * S, (container,))


PODS = (_pod("a", "web-0", 1, 20), _pod("b", "web-0", 22, None), *(_pod(str(i), f"p{i}", 0, None) for i in range(5)))


class Client:
    """Plain HTTP."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.url = api.start()

    def call(self, path: str, body: object = None) -> tuple[int, Any]:
        """Status and object."""
        data = None if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "PATCH"
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "x"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def watch(self, resource: str, version: str, seconds: float = 0.3) -> list[tuple[str, Any]]:
        """Events of a watch until the server ends it."""
        query = f"watch=1&resourceVersion={version}&timeoutSeconds={seconds}&allowWatchBookmarks=true"
        with urllib.request.urlopen(f"{self.url}/api/v1/{resource}?{query}", timeout=5) as answer:
            return [(event["type"], event["object"]) for event in map(json.loads, answer)]


@pytest.fixture
def client() -> Iterator[Client]:
    """A client of a fresh API server."""
    made = Client(KubeApi(SimCluster("c", 0, 100 * S, (SimNode("n1", 0, "boot", ()),), PODS)))
    yield made
    made.api.stop()


def test_list_in_chunks_is_of_one_version(client: Client) -> None:
    """Chunks together are the list at its first chunk's version, whatever happens between them."""
    _, page = client.call("/api/v1/pods?limit=2")
    client.api.advance(30 * S)
    names, version = [item["metadata"]["name"] for item in page["items"]], page["metadata"]["resourceVersion"]
    while token := page["metadata"].get("continue"):
        _, page = client.call(f"/api/v1/pods?limit=2&continue={token}")
        names += [item["metadata"]["name"] for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == version
    assert sorted(names) == [WATCHER_POD, "p0", "p1", "p2", "p3", "p4"]


def test_watch_tells_every_later_change_once(client: Client) -> None:
    """From a list's version the watch tells all changes in order; a re-created name is another uid."""
    _, listed = client.call("/api/v1/pods")
    client.api.advance(30 * S)
    events = client.watch("pods", listed["metadata"]["resourceVersion"])
    told = [(kind, item["metadata"]["uid"]) for kind, item in events]
    life = ["ADDED", "MODIFIED"]
    assert told == [(k, "a") for k in [*life, "MODIFIED", "DELETED"]] + [(k, "b") for k in life]
    versions = [int(item["metadata"]["resourceVersion"]) for _, item in events]
    assert versions == sorted(set(versions))
    again = client.watch("pods", str(versions[2]))
    assert [item["metadata"]["resourceVersion"] for _, item in again] == [str(version) for version in versions[3:]]


def test_watch_sends_bookmarks(client: Client) -> None:
    """A quiet watch tells its version in bookmarks."""
    client.api.bookmark_s = 0.05
    assert {kind for kind, _ in client.watch("nodes", "1007")} == {"BOOKMARK"}


def test_lost_history_is_an_error_event(client: Client) -> None:
    """A watch from a forgotten version is answered 200 with an ERROR event of code 410."""
    _, listed = client.call("/api/v1/pods")
    client.api.advance(30 * S)
    client.api.log.forget_history()
    assert [(k, o["code"]) for k, o in client.watch("pods", listed["metadata"]["resourceVersion"])] == [("ERROR", 410)]


def test_old_token_is_410(client: Client) -> None:
    """A continue token that is too old is refused with 410."""
    _, page = client.call("/api/v1/pods?limit=2")
    client.api.log.forget_tokens()
    assert client.call(f"/api/v1/pods?limit=2&continue={page['metadata']['continue']}")[0] == 410


def test_patch_merges_annotations(client: Client) -> None:
    """A merge patch adds, replaces and (null) removes annotations; the pod changes version; others are 404."""
    client.call(OWN, {"metadata": {"annotations": {"a": "1", "b": "2"}}})
    _, before = client.call(OWN)
    _, after = client.call(OWN, {"metadata": {"annotations": {"a": "3", "b": None}}})
    assert after["metadata"]["annotations"]["a"] == "3"
    assert "b" not in after["metadata"]["annotations"]
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])
    assert client.call(OWN + "x", {})[0] == 404


def test_followed_clock_reveals_changes_just_before_the_annotation() -> None:
    """In lock-step the annotation's time decides what is visible, up to the coordinator's and never beyond."""
    client = Client(KubeApi(SimCluster("c", 0, 100 * S, (), PODS), follow_clock=True))
    client.api.advance(21 * S)
    for told_s, uids in ((0, set()), (5, {"a"}), (50, set())):
        client.call(OWN, {"metadata": {"annotations": {"gpumeter.dev/clock": str(told_s * S)}}})
        _, listed = client.call("/api/v1/pods")
        assert {item["metadata"]["uid"] for item in listed["items"]} & {"a", "b"} == uids
    client.api.stop()
