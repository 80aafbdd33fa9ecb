"""Fixtures that more than one kind of test needs."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Bootstrap servers of a real one-broker Apache Kafka, one for the whole session."""
    from infra.broker.kafka import LocalKafka

    extra = {"log.cleaner.backoff.ms": "1000"}
    with LocalKafka(tmp_path_factory.mktemp("kafka"), extra=extra) as cluster:
        yield cluster.bootstrap
