"""The standing Kafka of a chaos run: three brokers, each behind its proxy, and the topics of the seed at hand.

Topics have fixed names, so each seed deletes and makes them anew; their ids differ, their groups too.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient

from infra.broker.child import bound_to_owner
from infra.broker.kafka import LocalKafka
from infra.broker.ports import free_ports
from infra.broker.topics import apply
from schemas.names import ALL_TOPICS
from tests.chaos.plan import BROKERS, PARTITIONS

_TOPICS_S = 60.0


class Cluster:
    """Brokers and proxies; `bootstrap` leads through the proxies."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._proxy_ports = free_ports(BROKERS)
        self.kafka = LocalKafka(directory, BROKERS, advertised=self._proxy_ports)
        self._proxy: subprocess.Popen[bytes] | None = None
        self._log = directory / "proxy.log"

    @property
    def bootstrap(self) -> str:
        """Addresses of the proxies."""
        return self.kafka.bootstrap

    def __enter__(self) -> "Cluster":
        self.kafka.start()
        pairs = [
            f"{own}:{address.split(':')[1]}"
            for own, address in zip(self._proxy_ports, self.kafka.own_addresses, strict=True)
        ]
        with self._log.open("ab") as log:
            self._proxy = subprocess.Popen(
                bound_to_owner([sys.executable, "-m", "tests.chaos.proxy", *pairs]),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        if self._proxy:
            self._proxy.kill()
            self._proxy.wait()
        self.kafka.stop()

    def network(self, command: str, broker: int) -> None:
        """Gives a broker's proxy a command."""
        assert self._proxy is not None
        assert self._proxy.stdin is not None
        self._proxy.stdin.write(f"{command} {broker}\n".encode())
        self._proxy.stdin.flush()

    def heal(self) -> None:
        """Networks whole again; brokers that were killed are started (`wait_whole` waits for them)."""
        for broker in range(BROKERS):
            self.network("heal", broker)
            if self.kafka.pid(broker) is None:
                self.kafka.launch(broker)

    def fresh_topics(self) -> None:
        """All topics of the catalogue, empty, of new ids, known to every broker."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        there = set(ALL_TOPICS) & admin.list_topics(timeout=20).topics.keys()
        for future in admin.delete_topics(sorted(there), operation_timeout=30).values() if there else ():
            future.result(30)
        self._wait_for(lambda known, _: not known)
        apply(self.bootstrap, partitions=PARTITIONS, replication=BROKERS)
        self._wait_for(lambda _, whole: whole == set(ALL_TOPICS))

    def wait_whole(self) -> None:
        """Returns when every broker answers and every replica of the topics is in sync again."""
        self.kafka.wait_ready()
        self._wait_for(lambda _, whole: whole == set(ALL_TOPICS))

    def _wait_for(self, reached: Callable[[set[str], set[str]], bool]) -> None:
        deadline = time.monotonic() + _TOPICS_S
        for address in self.kafka.own_addresses:
            while not reached(*_topics_at(address)):
                assert time.monotonic() < deadline, f"broker {address} does not know the topics of this seed"
                time.sleep(0.1)


def _topics_at(address: str) -> tuple[set[str], set[str]]:
    """Our topics that the broker at an address knows, and those of them whose replicas are all in sync."""
    # A new client each time: it asks the broker at this address and no other.
    live = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=10).topics
    known = {name: live[name] for name in ALL_TOPICS if name in live}
    whole = {
        name
        for name, topic in known.items()
        if topic.partitions and all(p.leader >= 0 and len(p.isrs) == BROKERS for p in topic.partitions.values())
    }
    return set(known), whole
