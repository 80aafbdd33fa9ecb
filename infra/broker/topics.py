"""Makes or compares the topics of the catalogue on a broker: the only shell around Kafka's admin interface for topics.

Decides nothing (plan.py does). Tested on a real broker in tests/integration/test_topics.py.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from schemas.catalogue import load_catalogue

from .errors import BrokerError
from .plan import Change, Live, Wanted, plan, wanted_topics

_ANSWER_S = 8.0
_TIMEOUT_S = 20.0


def compare(bootstrap: str, *, partitions: int | None = None, replication: int | None = None) -> list[Change]:
    """Differences between the broker and the catalogue; BrokerError when the broker does not answer."""
    return _look(_admin(bootstrap), bootstrap, partitions, replication)[1]


def apply(bootstrap: str, *, partitions: int | None = None, replication: int | None = None) -> list[Change]:
    """What was changed and what was refused; afterwards `compare` finds only the refused."""
    admin = _admin(bootstrap)
    wanted, changes = _look(admin, bootstrap, partitions, replication)
    try:
        created = {c.topic for c in changes if c.kind == "create"}
        if created:
            _wait(admin.create_topics([_new(name, wanted[name]) for name in created], operation_timeout=_TIMEOUT_S))
        configured = {c.topic for c in changes if c.kind == "configure"}
        if configured:
            _wait(admin.incremental_alter_configs([_settings(name, wanted[name]) for name in configured]))
    except KafkaException as error:
        raise BrokerError(f"topics on {bootstrap}: {error.args[0].str()}; some may be made, run it again") from error
    return changes


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def _look(
    admin: AdminClient, bootstrap: str, partitions: int | None, replication: int | None
) -> tuple[dict[str, Wanted], list[Change]]:
    try:
        cluster = admin.list_topics(timeout=_ANSWER_S)
        wanted = wanted_topics(
            load_catalogue(), partitions=partitions, replication=replication, brokers=len(cluster.brokers)
        )
        return wanted, plan(wanted, _live(admin, {n: t for n, t in cluster.topics.items() if n in wanted}))
    except KafkaException as error:
        raise BrokerError(
            f"broker {bootstrap} does not answer: {error.args[0].str()}; nothing was changed. Is it running "
            "(`gpumeter kafka status`), and is the address right?"
        ) from error


def _live(admin: AdminClient, topics: Mapping[str, Any]) -> dict[str, Live]:
    if not topics:
        return {}
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in topics])
    found = {resource.name: future.result(_TIMEOUT_S) for resource, future in asked.items()}
    return {
        name: Live(
            partitions=len(topic.partitions),
            replication=min(len(p.replicas) for p in topic.partitions.values()),
            config={key: entry.value for key, entry in found[name].items() if entry.value is not None},
        )
        for name, topic in topics.items()
    }


def _new(name: str, wanted: Wanted) -> NewTopic:
    return NewTopic(name, num_partitions=wanted.partitions, replication_factor=wanted.replication, config=wanted.config)


def _settings(name: str, wanted: Wanted) -> ConfigResource:
    entries = [ConfigEntry(key, value) for key, value in wanted.config.items()]
    return ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)


def _wait(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(_TIMEOUT_S)
