"""What a local broker is told: server.properties and JVM flags, as measured to be light and quick to restart.

Pure text; knows no process. Law: every listener is on 127.0.0.1 (tests/unit/infra/test_broker.py).
"""

from typing import NamedTuple

JVM_FLAGS = (
    "-Xms64m",
    "-Xmx256m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:MaxDirectMemorySize=64m",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)


class Ports(NamedTuple):
    """Ports of one broker on 127.0.0.1; `advertised` is where others are told to find it, 0: at `client`."""

    client: int
    controller: int
    advertised: int = 0

    @property
    def address(self) -> str:
        """Where clients and the other brokers connect."""
        return f"127.0.0.1:{self.advertised or self.client}"


def server_properties(index: int, ports: list[Ports], log_directory: str, extra: dict[str, str]) -> str:
    """server.properties of broker `index` (from 0) of a cluster of len(ports); `extra` overrides."""
    voters = ",".join(f"{i + 1}@127.0.0.1:{p.controller}" for i, p in enumerate(ports))
    factor = min(3, len(ports))
    in_sync = max(1, factor - 1)
    client, controller, _ = ports[index]
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(index + 1),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://{ports[index].address}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": log_directory,
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(factor),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": str(factor),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "log.index.size.max.bytes": "1048576",
        # With the default of 9 s a restart after kill -9 took 12.8 s.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
    }
    return "".join(f"{name}={value}\n" for name, value in (settings | extra).items())
