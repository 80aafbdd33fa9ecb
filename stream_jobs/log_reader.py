"""Reads what a worker must know from Kafka before it meters: topics and their ids, and a progress record.

The jobs' shell around confluent-kafka's consumer and admin for these two questions; blocking, so called from a thread.
Tested on a real broker in tests/integration/test_worker.py.
"""

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from schemas.names import DEAD_LETTERS, GPU_USAGE, INPUT_TOPICS, METER_PROGRESS, METER_SETTINGS
from schemas.rules import decode_rule

from .clock import monotonic_s
from .core.calendar import Change
from .core.carry import Progress
from .errors import Retry, Stop
from .progress import Pointer, decode_body, join

_ANSWER_S = 10.0
_READ_S = 30.0


class Layout(NamedTuple):
    """Ids of the topics a worker needs, and in how many partitions those that go together are."""

    ids: dict[str, str]
    partitions: int


def topic_layout(bootstrap_servers: str) -> Layout:
    """How the topics are laid out; Retry if the broker is away, Stop if a topic is missing or laid out wrongly."""
    wanted = (*INPUT_TOPICS, GPU_USAGE, METER_PROGRESS, DEAD_LETTERS, METER_SETTINGS)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    try:
        live = admin.list_topics(timeout=_ANSWER_S).topics
        missing = sorted(set(wanted) - live.keys())
        if missing:
            raise Stop(f"topics {', '.join(missing)} are not on {bootstrap_servers}; run `gpumeter topics apply` first")
        described = admin.describe_topics(TopicCollection(list(wanted)))
        found = {name: future.result(_ANSWER_S) for name, future in described.items()}
    except KafkaException as error:
        raise Retry(f"broker {bootstrap_servers} does not answer: {error.args[0].str()}; is it running?") from error
    except TimeoutError as error:
        raise Retry(f"broker {bootstrap_servers} did not describe its topics within {_ANSWER_S:.0f} s") from error
    counts = {name: len(found[name].partitions) for name in wanted if name not in (DEAD_LETTERS, METER_SETTINGS)}
    if len(set(counts.values())) != 1:
        raise Stop(
            f"topics that are partitioned alike have different partition counts: {counts}; counts never grow in place, "
            "since a node's records would go to another partition than those before. See `gpumeter topics diff`"
        )
    ids = {name: str(topic.topic_id) for name, topic in found.items()}
    return Layout(ids, counts[GPU_USAGE])


def read_progress(bootstrap_servers: str, partition: int, pointer: Pointer) -> Progress:
    """The progress a pointer names; Retry if the broker is away, Stop if a record of it is gone."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "gpumeter-progress-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 2,
        }
    )
    try:
        chunks = _read_offsets(consumer, partition, pointer.chunks)
    except KafkaException as error:
        raise Retry(f"{METER_PROGRESS}/{partition} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
    missing = [offset for offset in pointer.chunks if offset not in chunks]
    if missing:
        raise Stop(
            f"progress records {missing} of {METER_PROGRESS}/{partition} are gone, the commit names them; stopped, "
            "since a start without them would count windows twice. Delete the consumer group to read the log anew"
        )
    return decode_body(join([chunks[offset] for offset in pointer.chunks]), pointer)


def first_offset(bootstrap_servers: str, topic: str, partition: int, at: int) -> int | None:
    """Offset of the first message of a log at or behind `at`; None if the log does not reach there, or says nothing.

    Offsets are missing where a producer ended a transaction, and where a log was compacted.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "gpumeter-hole-reader",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "error",
            "log_level": 2,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, at)])
        message = consumer.poll(_ANSWER_S)
    finally:
        consumer.close()
    return None if message is None or message.error() is not None else int(message.offset() or 0)


def read_rules(bootstrap_servers: str) -> list[tuple[int, Change | str]]:
    """Append time and content of every rule told, or what is wrong with it; Retry if the broker is away."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "gpumeter-rules-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    found: list[tuple[int, Change | str]] = []
    try:
        consumer.assign([TopicPartition(METER_SETTINGS, 0, 0)])
        while (message := consumer.poll(_ANSWER_S)) is not None:
            if message.error() is None:
                found.append((message.timestamp()[1] * 1000, _change_of(message.value() or b"")))
            elif _ends(message.error()):
                return found
            else:
                raise Retry(f"{METER_SETTINGS} cannot be read: {message.error()}")
    finally:
        consumer.close()
    raise Retry(f"{METER_SETTINGS} on {bootstrap_servers} did not answer within {_ANSWER_S:.0f} s")


def _change_of(payload: bytes) -> Change | str:
    try:
        rule = decode_rule(payload)
    except ValueError as error:
        return str(error)
    return Change(rule.effective_us, rule.window_us, rule.lateness_us)


def _read_offsets(consumer: Consumer, partition: int, offsets: list[int]) -> dict[int, bytes]:
    """Payloads found at offsets; what is gone is left out."""
    found: dict[int, bytes] = {}
    consumer.assign([TopicPartition(METER_PROGRESS, partition, offsets[0])])
    deadline, ended = monotonic_s() + _READ_S, False
    while monotonic_s() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is not None:
            if getattr(message.error(), "name", str)() == "_PARTITION_EOF":
                ended = True  # Or a new leader does not show yet what was acknowledged: that comes soon.
                continue
            if _ends(message.error()):
                return found
            raise KafkaException(message.error())
        at = int(message.offset() or 0)
        if at in offsets:
            found[at] = message.value() or b""
        if at >= offsets[-1]:
            return found
    if ended:
        return found
    raise Retry(f"{METER_PROGRESS}/{partition} at {offsets[0]}: no answer within {_READ_S:.0f} s")


def _ends(error: object) -> bool:
    name = getattr(error, "name", lambda: "")()
    return name in ("_PARTITION_EOF", "OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET")
