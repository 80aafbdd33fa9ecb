"""How the topics and the groups that read them stand: ends, commits, ages, members.

Shell around Kafka's admin interface; decides nothing (infra/status/judge.py does). Tested on a real broker in
tests/integration/test_status.py.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from .errors import BrokerError

_ANSWER_S = 8.0
_LOADING = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
"""A broker that has just started says so of its groups for a while."""
Key = tuple[str, int]


class Place(NamedTuple):
    """A partition: its log, what its group committed, and the first offset appended since a time."""

    topic: str
    partition: int
    start: int
    end: int
    newest_us: int | None
    """Append time of its newest record; None where it has none."""
    committed: int | None
    since: int
    """First offset appended at or after the time that was asked for; the end where there is none."""


class Standing(NamedTuple):
    """Everything at one moment; `members` of each group, topics that are not there."""

    brokers: int
    places: list[Place]
    members: dict[str, int]
    missing: list[str]


class Question(NamedTuple):
    """A topic, the group whose commits count on it, and the append time that `Place.since` is about."""

    topic: str
    group: str | None
    since_us: int


def look(bootstrap: str, questions: Sequence[Question]) -> Standing:
    """How all of it stands; BrokerError where the broker does not answer."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline_s = time.monotonic() + _ANSWER_S
    while True:
        try:
            return _look(admin, bootstrap, questions)
        except KafkaException as error:
            cause = error.args[0]
            if cause.name() not in _LOADING or time.monotonic() > deadline_s:
                raise BrokerError(f"broker {bootstrap} does not answer: {cause.str()}; is it running?") from error
            time.sleep(0.3)


def _look(admin: AdminClient, bootstrap: str, questions: Sequence[Question]) -> Standing:
    cluster = admin.list_topics(timeout=_ANSWER_S)
    there = [q for q in questions if q.topic in cluster.topics]
    groups = sorted({q.group for q in questions if q.group})
    committed = {}
    for group in groups:
        own = [(q.topic, p) for q in there if q.group == group for p in cluster.topics[q.topic].partitions]
        committed[group] = _committed(bootstrap, group, own) if own else {}
    members = _members(admin, groups)
    places = [
        place for question in there
        for place in _places(admin, question, cluster.topics[question.topic].partitions, committed)
    ]  # fmt: skip
    missing = [q.topic for q in questions if q.topic not in cluster.topics]
    return Standing(len(cluster.brokers), places, members, missing)


def _places(
    admin: AdminClient, question: Question, numbers: Iterable[int], committed: Mapping[str, Mapping[Key, int]]
) -> list[Place]:
    topic = question.topic
    partitions = sorted(numbers)
    starts = _offsets(admin, topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    ends = _offsets(admin, topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    newest = _offsets(admin, topic, partitions, OffsetSpec.max_timestamp())  # type: ignore[no-untyped-call]
    asked = OffsetSpec.for_timestamp(question.since_us // 1000)
    since = _offsets(admin, topic, partitions, asked)
    own = committed.get(question.group or "", {})
    return [
        Place(
            topic=topic,
            partition=p,
            start=starts[p].offset,
            end=ends[p].offset,
            newest_us=newest[p].timestamp * 1000 if newest[p].offset >= 0 else None,
            committed=own.get((topic, p)),
            since=since[p].offset if since[p].offset >= 0 else ends[p].offset,
        )
        for p in partitions
    ]


def _offsets(admin: AdminClient, topic: str, partitions: Sequence[int], spec: OffsetSpec) -> dict[int, Any]:
    asked = admin.list_offsets({TopicPartition(topic, number): spec for number in partitions})
    return {place.partition: future.result(_ANSWER_S) for place, future in asked.items()}


def _committed(bootstrap: str, group: str, places: Sequence[Key]) -> dict[Key, int]:
    """Committed offsets of a group's topics; asked as a consumer that never joins.

    The admin interface's own question for them was seen to end in a segmentation fault while a group was loading.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(*place) for place in places], timeout=_ANSWER_S)
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}
    finally:
        consumer.close()


def _members(admin: AdminClient, groups: Sequence[str]) -> dict[str, int]:
    if not groups:
        return {}
    found = {}
    for group, future in admin.describe_consumer_groups(list(groups)).items():
        try:
            found[group] = len(future.result(_ANSWER_S).members)
        except KafkaException as error:
            if error.args[0].name() != "GROUP_ID_NOT_FOUND":
                raise
            found[group] = 0
    return found
