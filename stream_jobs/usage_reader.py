"""Reads gpu-usage from Kafka: all partitions, from offsets that the ledger names; gpu-live from its end. The only Kafka
consumer of the sink.

Knows offsets and bytes, not rows. The ledger says where to start, so a new ledger reads everything and an old one
nothing twice; what is committed to the group is for people who watch the lag. Law: a hole between the ledger and the
log is never passed in silence (tests/integration/test_sink.py).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from schemas.headers import given_headers

from .clock import monotonic_s
from .errors import Retry, Stop
from .usage_rows import UsageMessage

_ANSWER_S = 10.0
_ASK_S, _ASK_AGAIN_S = 0.5, 5.0


class Start(NamedTuple):
    """Where reading of a partition begins, and why."""

    partition: int
    offset: int
    why: str


class UsageReader:
    """A consumer of all partitions of a topic."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str) -> None:
        self._bootstrap, self._topic = bootstrap_servers, topic
        self.trouble = ""
        """What the broker last complained of; empty while messages come."""
        self._ends: dict[int, int] = {}
        self._asked_s = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "client.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "log_level": 2,
                "error_cb": self._complain,
            }
        )

    def topic_id(self) -> str:
        """The topic's id (another after it was re-created); Retry without a broker, Stop without the topic."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 2})
        try:
            if self._topic not in admin.list_topics(timeout=_ANSWER_S).topics:
                raise Stop(f"topic {self._topic} is not on {self._bootstrap}; run `gpumeter topics apply` first")
            future = admin.describe_topics(TopicCollection([self._topic]))[self._topic]
            return str(future.result(_ANSWER_S).topic_id)
        except KafkaException as error:
            raise Retry(f"broker {self._bootstrap} does not answer: {_text(error)}; is it running?") from error
        except TimeoutError as error:
            raise Retry(f"broker {self._bootstrap} did not describe {self._topic} within {_ANSWER_S:.0f} s") from error

    def start(self, next_offsets: Mapping[int, int], *, accept_loss: bool) -> list[Start]:
        """Begins at the offsets, or where the log begins; Stop where the log lost messages the ledger lacks."""
        try:
            partitions = sorted(
                self._consumer.list_topics(self._topic, timeout=_ANSWER_S).topics[self._topic].partitions
            )
            starts = [self._start(number, next_offsets.get(number), accept_loss) for number in partitions]
            self._consumer.assign([TopicPartition(self._topic, start.partition, start.offset) for start in starts])
        except KafkaException as error:
            raise Retry(f"broker {self._bootstrap} does not answer: {_text(error)}; is it running?") from error
        return starts

    def start_at_end(self) -> None:
        """Begins behind everything that is there now; Retry without a broker or the topic."""
        try:
            partitions = sorted(
                self._consumer.list_topics(self._topic, timeout=_ANSWER_S).topics[self._topic].partitions
            )
            if not partitions:
                raise Retry(f"topic {self._topic} is not on {self._bootstrap}; run `gpumeter topics apply`")
            self._ends = dict.fromkeys(partitions, 0)
            self._consumer.assign([TopicPartition(self._topic, number, OFFSET_END) for number in partitions])
        except KafkaException as error:
            raise Retry(f"broker {self._bootstrap} does not answer: {_text(error)}; is it running?") from error

    def _start(self, partition: int, wanted: int | None, accept_loss: bool) -> Start:
        low, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_ANSWER_S)
        self._ends[partition] = high
        if wanted is None:
            return Start(partition, low, "the ledger has nothing of it; from the log's beginning")
        if wanted > high:
            return Start(partition, low, f"the ledger is at {wanted}, beyond the log's end {high}: all is read again")
        if wanted >= low:
            return Start(partition, wanted, "where the ledger is")
        if not accept_loss:
            raise Stop(
                f"{self._topic}/{partition}: offsets {wanted} to {low - 1} left the log before they reached the "
                "ledger. Nothing was read. To go on without them: --accept-loss"
            )
        return Start(partition, low, f"offsets {wanted} to {low - 1} are lost, as --accept-loss accepts")

    def read(self, most: int, wait_s: float) -> list[UsageMessage]:
        """Messages that came within `wait_s`; Retry where the log cannot be read on from here."""
        found = []
        for message in self._consumer.consume(most, wait_s):
            error = message.error()
            if error is None:
                found.append(_usage_message(message))
            elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise Retry(
                    f"{self._topic}/{message.partition()} cannot be read on: {error.str()}; a restart looks anew"
                )
        if found or (self.trouble and self._answers()):
            self.trouble = ""
        self._note_ends()
        return found

    def ends(self) -> dict[int, int]:
        """Next offset of each partition as the broker last told; may be asked from another thread."""
        return dict(self._ends)

    def _answers(self) -> bool:
        """Asks seldom whether a broker that complained is back: on a quiet topic no message would tell."""
        if monotonic_s() - self._asked_s < _ASK_AGAIN_S:
            return False
        self._asked_s = monotonic_s()
        try:
            return bool(self._consumer.list_topics(self._topic, timeout=_ASK_S).brokers)
        except KafkaException:
            return False

    def _note_ends(self) -> None:
        for partition in self._ends:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), cached=True)
            self._ends[partition] = max(self._ends[partition], high)

    def commit(self, next_offsets: Mapping[int, int], report: Callable[[str], None]) -> None:
        """Tells the group's lag to Kafka, for people; a failure is reported, since the ledger's own offsets count."""
        try:
            self._consumer.commit(
                offsets=[TopicPartition(self._topic, p, offset) for p, offset in next_offsets.items()],
                asynchronous=True,
            )
        except KafkaException as error:
            report(f"offsets of {self._topic} were not committed for display: {_text(error)}")

    def close(self) -> None:
        """Leaves the broker; sends what was committed."""
        self._consumer.close()

    def _complain(self, error: KafkaError) -> None:
        self.trouble = error.str()


def _usage_message(message: Message) -> UsageMessage:
    _, append_ms = message.timestamp()
    # Without headers, where they cannot be given, the message is a dead letter.
    return UsageMessage(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        append_us=append_ms * 1000,
        headers=given_headers(message) or [],
        payload=message.value() or b"",
    )


def _text(error: KafkaException) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
