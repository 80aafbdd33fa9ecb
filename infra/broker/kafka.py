"""A real Apache Kafka (KRaft) of one or three brokers in a directory, for the demo and the tests.

Owns the brokers' processes and files; knows nothing of topics. Ended by process id only; with `bound` no broker
outlives its owner. Law: what was acknowledged is there after kill -9 and restart
(tests/integration/test_kafka_broker.py).
"""

import secrets
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from .child import end, kill, spawn
from .errors import BrokerError
from .install import ensure_kafka, java_path
from .ports import free_ports
from .properties import JVM_FLAGS, Ports, server_properties
from .state import properties_path, read_ports, running_pids, write_ports

_READY_TIMEOUT_S = 60.0
# Several brokers stopped at once lose their quorum, and the last waits in vain; what is acknowledged survives a kill.
_STOP_PATIENCE_S = 8.0


class LocalKafka:
    """Brokers on 127.0.0.1 with their logs, settings and output under `directory`."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        *,
        extra: dict[str, str] | None = None,
        bound: bool = True,
        advertised: Sequence[int] = (),
    ) -> None:
        """`advertised`: a port for each broker of a proxy through which clients and other brokers reach it."""
        if brokers < 1:
            raise ValueError(f"brokers: {brokers}; at least one is needed")
        self.directory = directory.resolve()
        self._count = brokers
        self._extra = extra or {}
        self._bound = bound
        self._advertised = list(advertised) or [0] * brokers
        self._ports: list[Ports] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._classpath = ""

    def start(self) -> str:
        """Bootstrap servers once all brokers answer; a directory used before is started again with its data."""
        if running_pids(self.directory):
            raise BrokerError(f"a Kafka already runs in {self.directory}; stop it first, or use another directory")
        self._classpath = ensure_kafka()
        self._ports = read_ports(self.directory)
        if self._ports:
            self._count = len(self._ports)
        else:
            self._create()
        try:
            for index in range(self._count):
                self.launch(index)
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self.bootstrap

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return ",".join(ports.address for ports in self._ports)

    @property
    def own_addresses(self) -> list[str]:
        """Where each broker itself listens, also where a proxy is advertised."""
        return [f"127.0.0.1:{ports.client}" for ports in self._ports]

    def pid(self, index: int) -> int | None:
        """Process id of a broker; None where it was killed."""
        return self._processes[index].pid if index in self._processes else None

    def pids(self) -> list[int]:
        """Process ids of the brokers that run."""
        return [process.pid for process in self._processes.values() if process.poll() is None]

    def kill(self, index: int) -> None:
        """Kill -9 of a broker."""
        kill(self._processes.pop(index))

    def restart(self, index: int) -> None:
        """Start of a broker that was killed, until all brokers answer; a running one is stopped first."""
        if index in self._processes:
            end(self._processes.pop(index), patience_s=_STOP_PATIENCE_S)
        self.launch(index)
        self.wait_ready()

    def launch(self, index: int) -> None:
        """Starts a broker that was killed, without waiting for it."""
        argv = [*self._java("kafka.Kafka"), str(properties_path(self.directory, index))]
        self._processes[index] = spawn(argv, log=self.log(index), bound=self._bound)

    def stop(self) -> None:
        """Clean stop of all brokers, kill -9 of those that still run after 8 s."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + _STOP_PATIENCE_S
        for process in self._processes.values():
            end(process, patience_s=max(0.0, deadline - time.monotonic()))
        self._processes.clear()

    def __enter__(self) -> "LocalKafka":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _create(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        numbers = free_ports(2 * self._count)
        self._ports = [
            Ports(client, controller, advertised)
            for client, controller, advertised in zip(numbers[::2], numbers[1::2], self._advertised, strict=True)
        ]
        # StorageTool takes an id that starts with "-" for an option; hex digits never do.
        cluster_id = secrets.token_hex(11)
        for index in range(self._count):
            text = server_properties(index, self._ports, str(self._folder(index) / "data"), self._extra)
            self._folder(index).mkdir(exist_ok=True)
            properties_path(self.directory, index).write_text(text)
        with ThreadPoolExecutor(self._count) as pool:
            list(pool.map(lambda index: self._format(index, cluster_id), range(self._count)))
        write_ports(self.directory, self._ports)

    def _folder(self, index: int) -> Path:
        return self.directory / f"broker-{index}"

    def log(self, index: int) -> Path:
        """File of a broker's output."""
        return self._folder(index) / "broker.log"

    def _java(self, main: str) -> list[str]:
        return [java_path(), *JVM_FLAGS, "-cp", self._classpath, main]

    def _format(self, index: int, cluster_id: str) -> None:
        command = [*self._java("kafka.tools.StorageTool"), "format", "-t", cluster_id, "-c"]
        done = subprocess.run(
            [*command, str(properties_path(self.directory, index))],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerError(f"Kafka could not format {self._folder(index)}: {(done.stderr or done.stdout)[-800:]}")

    def wait_ready(self) -> None:
        """Returns when each broker itself answers and knows all the others."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        for index, address in enumerate(self.own_addresses):
            while _brokers_known_to(address) != self._count:
                self._require_alive()
                if time.monotonic() > deadline:
                    raise BrokerError(
                        f"broker {index} at {address} did not answer within {_READY_TIMEOUT_S:.0f} s"
                        + self._tail(index)
                    )
                time.sleep(0.1)

    def _require_alive(self) -> None:
        for index, process in self._processes.items():
            if process.poll() is not None:
                raise BrokerError(f"broker {index} ended with {process.returncode} at its start{self._tail(index)}")

    def _tail(self, index: int) -> str:
        path = self.log(index)
        text = path.read_text(errors="replace")[-1500:] if path.exists() else ""
        return f"; the end of {path}:\n{text}"


def _brokers_known_to(address: str) -> int:
    # A new client each time: one that has met the other brokers may ask any of them.
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    try:
        return len(admin.list_topics(timeout=1.0).brokers)
    except KafkaException:
        return 0
