"""The kubelet port: our client against a real gRPC server on a unix socket, and against servers that misbehave."""

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest

from collector import podresources_pb2 as pb
from collector.errors import Retry
from collector.kubelet import Kubelet
from infra.sim.model import SimCluster, SimContainer, SimGpu, SimNode, SimPod
from infra.sim.podresources import PodResourcesServer

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
NODE = SimNode("n1", 0, "boot", (SimGpu(A, 0, "H200", 1 << 37, 4), SimGpu(B, 1, "H200", 1 << 37)))


def _pod(name: str, *containers: SimContainer, deleted_us: int | None = None, node: str = "n1") -> SimPod:
    return SimPod(f"uid-{name}", "team", name, node, 0, deleted_us, containers)


def _container(
    name: str, slots: tuple[str, ...] = (), start: int = 0, end: int | None = None, kind: str = "main"
) -> SimContainer:
    return SimContainer(name, name.ljust(64, "0"), start, end, kind, {}, slots)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose name leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="pr") as name:
        yield Path(name)


@contextmanager
def _kubelet(folder: Path, pods: tuple[SimPod, ...], now: Callable[[], int] = lambda: 10) -> Iterator[Kubelet]:
    server = PodResourcesServer(SimCluster("c", 0, 100, (NODE,), pods), "n1", folder / "kubelet.sock", now)
    server.start()
    try:
        yield Kubelet(str(folder / "kubelet.sock"), timeout_s=5)
    finally:
        server.stop()


def test_grants_are_those_of_running_containers(short_path: Path) -> None:
    """Main and sidecar containers that run now hold their slots; init, ended, later and foreign ones hold none."""
    pods = (
        _pod("train", _container("main", (f"{A}::1", f"{A}::0")), _container("helper", (B,), kind="sidecar")),
        _pod("cpu", _container("main")),
        _pod("init", _container("setup", (f"{A}::2",), kind="init")),
        _pod("ended", _container("main", (f"{A}::2",), end=10)),
        _pod("gone", _container("main", (f"{A}::2",)), deleted_us=10),
        _pod("later", _container("main", (f"{A}::3",), start=11)),
        _pod("elsewhere", _container("main", (B,)), node="n2"),
    )
    with _kubelet(short_path, pods) as kubelet:
        grants = kubelet.grants()
        assert [(g.pod_name, g.container_name, g.slot, g.gpu_uuid) for g in grants] == [
            ("train", "helper", B, B),
            ("train", "main", f"{A}::0", A),
            ("train", "main", f"{A}::1", A),
        ]
        assert {(g.resource, g.namespace) for g in grants} == {("nvidia.com/gpu", "team")}


def test_grants_follow_the_time_and_not_the_order_of_the_answer(short_path: Path) -> None:
    """The same time gives the same list at each call, and a later time shows what ended and what began."""
    now = [0]
    pods = tuple(_pod(f"p{i}", _container("main", (f"{A}::{i}",), start=i, end=i + 10)) for i in range(4))
    with _kubelet(short_path, pods, lambda: now[0]) as kubelet:
        now[0] = 5
        assert kubelet.grants() == kubelet.grants() == kubelet.grants()
        now[0] = 11
        assert [g.pod_name for g in kubelet.grants()] == ["p2", "p3"]


def test_slots_count_what_the_plugin_offers(short_path: Path) -> None:
    """Replicas of a GPU count each, a whole GPU counts once."""
    with _kubelet(short_path, ()) as kubelet:
        assert {s.gpu_uuid: s.slots for s in kubelet.slots()} == {A: 4, B: 1}


def test_full_node_is_listed_whole(short_path: Path) -> None:
    """110 pods with several slots each come back complete."""
    pods = tuple(_pod(f"p{i:03}", _container("main", tuple(f"{A}::{i}-{k}" for k in range(8)))) for i in range(110))
    with _kubelet(short_path, pods) as kubelet:
        assert len(kubelet.grants()) == 880


def test_answers_larger_than_the_windows_arrive_whole(short_path: Path) -> None:
    """An answer of more than 8 MiB, many times any default window of HTTP/2, arrives complete."""
    pods = tuple(_pod(f"{i:05}".ljust(200, "x"), _container("main", (f"{A}::{i}",))) for i in range(30_000))
    with _kubelet(short_path, pods) as kubelet:
        assert len(kubelet.grants()) == 30_000


def test_answer_above_the_limit_is_refused(short_path: Path) -> None:
    """More than 16 MiB is refused with its reason instead of filling the node's memory."""
    pods = tuple(_pod(f"{i:05}".ljust(500, "x"), _container("main", (f"{A}::{i}",))) for i in range(32_000))
    with _kubelet(short_path, pods) as kubelet, pytest.raises(Retry, match="larger than"):
        kubelet.grants()


def test_kubelet_restart_is_retry_then_answers(short_path: Path) -> None:
    """A stopped kubelet is Retry with the socket's name; the same client works when it is back."""
    server = PodResourcesServer(SimCluster("c", 0, 100, (NODE,), ()), "n1", short_path / "kubelet.sock", lambda: 1)
    kubelet = Kubelet(str(short_path / "kubelet.sock"), timeout_s=5)
    with pytest.raises(Retry, match="no such socket"):
        kubelet.grants()
    server.start()
    assert kubelet.grants() == []
    server.stop()
    with pytest.raises(Retry, match=r"kubelet\.sock"):
        kubelet.grants()
    server.start()
    assert kubelet.slots()
    server.stop()


def test_stale_socket_file_is_retry(short_path: Path) -> None:
    """A socket file that nobody listens on is Retry."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_path / "kubelet.sock"))
    with pytest.raises(Retry, match="refused"):
        Kubelet(str(short_path / "kubelet.sock")).grants()


def test_device_served_by_index_becomes_its_uuid(short_path: Path) -> None:
    """Ids by index, as GKE gives them, name the UUID that NVML has for the index."""
    pods = (_pod("a", _container("main", ("nvidia0/vgpu1", "nvidia1", "nvidia7"))),)
    with _kubelet(short_path, pods):
        kubelet = Kubelet(str(short_path / "kubelet.sock"), uuid_by_index=lambda i, gi: {0: A, 1: B}.get(i))
        found = {g.slot: g.gpu_uuid for g in kubelet.grants()}
    assert found == {"nvidia0/vgpu1": A, "nvidia1": B, "nvidia7": "nvidia7"}


Script = Callable[[h2.connection.H2Connection, int], None]


@contextmanager
def _scripted(folder: Path, script: Script | bytes | None) -> Iterator[Kubelet]:
    """A client of a server that does what the script says once a request is whole; None: it stays silent."""
    path = folder / "kubelet.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
            http.initiate_connection()
            while received := connection.recv(65536):
                if isinstance(script, bytes):
                    connection.sendall(script)
                    return
                ended = [e for e in http.receive_data(received) if isinstance(e, h2.events.StreamEnded)]
                if ended and script is not None:
                    script(http, ended[0].stream_id)
                connection.sendall(http.data_to_send())
                if ended and script is not None:
                    return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield Kubelet(str(path), timeout_s=0.5)
    listener.close()
    thread.join(5)


def _status(code: int, text: str = "") -> Script:
    def script(http: h2.connection.H2Connection, stream: int) -> None:
        headers = [(":status", "200"), ("grpc-status", str(code)), ("grpc-message", text)]
        http.send_headers(stream, headers, end_stream=True)

    return script


def _message(body: bytes, status: str | None = "0") -> Script:
    def script(http: h2.connection.H2Connection, stream: int) -> None:
        http.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        http.send_data(stream, body)
        http.send_headers(stream, [("grpc-status", status)] if status else [("x", "y")], end_stream=True)

    return script


def test_slots_are_unknown_where_the_kubelet_has_no_such_call(short_path: Path) -> None:
    """UNIMPLEMENTED for the allocatable devices means that the slots are not known."""
    with _scripted(short_path, _status(12, "unknown method")) as kubelet:
        assert kubelet.slots() == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (_status(12, "unknown"), "status 12 unknown"),
        (_status(8, "rejected%20by rate limit"), "status 8 rejected by rate limit"),
        (_message(b""), "not one plain message"),
        (_message(b"\x01\0\0\0\x01x"), "not one plain message"),
        (_message(b"\0\0\0\0\x05x"), "not one plain message"),
        (_message(b"\0\0\0\0\x02\xff\xff"), "cannot be decoded"),
        (_message(b"\0\0\0\0\0", status=None), "without a gRPC status"),
        (lambda http, stream: http.reset_stream(stream, 2), "reset"),
        (lambda http, stream: http.close_connection(1), "GOAWAY"),
        (lambda http, stream: http.send_headers(stream, [(":status", "503")], end_stream=True), "503"),
        (lambda http, stream: http.send_headers(stream, [(":status", "200")]), "closed before"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/2|closed before"),
        (None, "no answer within"),
    ],
)
def test_broken_answer_is_retry_with_its_reason(short_path: Path, script: Script | bytes | None, words: str) -> None:
    """Whatever a server does instead of answering, grants are unknown, the text says why, and nothing is empty."""
    with _scripted(short_path, script) as kubelet, pytest.raises(Retry, match=words):
        kubelet.grants()


def test_claims_of_dynamic_allocation_are_counted(short_path: Path) -> None:
    """Devices granted through DRA give no grant yet, and their number is known."""
    answer = pb.ListPodResourcesResponse()
    container = answer.pod_resources.add(name="p", namespace="n").containers.add(name="c")
    claim = container.dynamic_resources.add(claim_name="gpu")
    claim.claim_resources.add(driver_name="gpu.nvidia.com", pool_name="n1", device_name="gpu-0")
    payload = answer.SerializeToString()
    with _scripted(short_path, _message(b"\0" + len(payload).to_bytes(4, "big") + payload)) as kubelet:
        assert kubelet.grants() == []
        assert kubelet.dynamic_claims == 1
