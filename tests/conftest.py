"""Fixtures that more than one kind of test needs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from infra.broker.kafka import LocalKafka

_EXTRA = {"log.cleaner.backoff.ms": "1000"}


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a real one-broker Apache Kafka, one for the whole session."""
    from infra.broker.kafka import LocalKafka

    with LocalKafka(tmp_path_factory.mktemp("kafka"), extra=_EXTRA) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LocalKafka"]:
    """A real one-broker Apache Kafka for one test alone: empty, and it may be killed."""
    from infra.broker.kafka import LocalKafka

    with LocalKafka(tmp_path_factory.mktemp("own-kafka"), extra=_EXTRA) as cluster:
        yield cluster
