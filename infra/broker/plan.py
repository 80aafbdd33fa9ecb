"""What it takes to make a broker's topics equal to the catalogue; pure, so that diff and apply cannot disagree.

Laws: the plan for equal topics is empty; a partition count is never changed (tests/unit/infra/test_topics_plan.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.catalogue import Topic


@dataclass(frozen=True, slots=True)
class Wanted:
    """A topic as it shall be on a broker."""

    partitions: int
    replication: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class Live:
    """A topic as it is on a broker; `config` holds every setting in force."""

    partitions: int
    replication: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: `create` and `configure` can be made good, `refused` cannot; `text` says which and why."""

    topic: str
    kind: str
    text: str


def wanted_topics(
    catalogue: Mapping[str, Topic], *, partitions: int | None, replication: int | None, brokers: int
) -> dict[str, Wanted]:
    """The catalogue on this cluster; `partitions` counts for the topics that are partitioned alike."""
    factor = replication or min(3, brokers)
    safety = {"min.insync.replicas": str(max(1, factor - 1))}
    return {
        name: Wanted(partitions if topic.alike and partitions else topic.partitions, factor, topic.config | safety)
        for name, topic in catalogue.items()
    }


def plan(wanted: Mapping[str, Wanted], live: Mapping[str, Live]) -> list[Change]:
    """All differences, topic by topic in the order of the catalogue."""
    changes: list[Change] = []
    for name, topic in wanted.items():
        if name not in live:
            text = f"is not there; {topic.partitions} partitions, replication {topic.replication}"
            changes.append(Change(name, "create", text))
        else:
            changes += _compare(name, topic, live[name])
    return changes


def _compare(name: str, wanted: Wanted, live: Live) -> list[Change]:
    changes = []
    if wanted.partitions != live.partitions:
        text = (
            f"has {live.partitions} partitions, wanted {wanted.partitions}: not changed, because a node's records "
            "would move to another partition in the middle of its windows. Name the count it has with --partitions, or "
            "make topics of a new generation"
        )
        changes.append(Change(name, "refused", text))
    if wanted.replication != live.replication:
        text = (
            f"has replication {live.replication}, wanted {wanted.replication}: not changed here; name the factor it "
            "has with --replication, or reassign its replicas with Kafka's own tools"
        )
        changes.append(Change(name, "refused", text))
    for setting, value in wanted.config.items():
        if live.config.get(setting) != value:
            text = f"{setting} is {live.config.get(setting, 'not set')}, wanted {value}"
            changes.append(Change(name, "configure", text))
    return changes
