"""Publishes to Kafka and says when all is acknowledged: idempotent, all replicas. The jobs' only Kafka producers.

Knows bytes, not records. Law: `flush` returns only when every message sent since the last `flush` is acknowledged, and
a failure is told once: who goes on sends again (tests/integration/test_worker.py kills a worker between the two,
tests/integration/test_publish.py takes the broker away from a sink).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .errors import Retry, Stop

DELIVERY_TIMEOUT_S = 60
_FLUSH_SLACK_S = 15
"""By how much a flush outwaits the delivery of what it waits for."""
_BEST_EFFORT_MS, _BEST_EFFORT_KIB = 5_000, 16_384


class Outgoing(NamedTuple):
    """A message to be sent; `partition` None: by its key."""

    topic: str
    partition: int | None
    key: bytes
    headers: list[tuple[str, bytes]]
    payload: bytes | None


class Publisher:
    """A producer whose failures surface at the next `flush`, once."""

    def __init__(self, bootstrap_servers: str, client_id: str, delivery_timeout_s: int = DELIVERY_TIMEOUT_S) -> None:
        self._bootstrap = bootstrap_servers
        self._flush_timeout_s = delivery_timeout_s + _FLUSH_SLACK_S
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "client.id": client_id,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "delivery.timeout.ms": delivery_timeout_s * 1000,
            "log_level": 3,
        }
        self._failed: list[str] = []
        self._producer = Producer(self._settings)

    def send(self, message: Outgoing, acknowledged: Callable[[int], None] | None = None) -> None:
        """Queues a message; `acknowledged` gets its offset.

        Retry when the queue stays full or the producer can go on no more: nothing sent since the last `flush` counts.
        """
        failed = self._failed

        def delivered(error: KafkaError | None, sent: Message) -> None:
            if error is not None:
                failed.append(f"{message.topic}: {error.str()}")
            elif acknowledged is not None:
                acknowledged(int(sent.offset() or 0))

        arguments: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
        for _ in range(self._flush_timeout_s):
            try:
                self._producer.produce(
                    message.topic,
                    value=message.payload,
                    key=message.key,
                    headers=list(message.headers),
                    on_delivery=delivered,
                    **arguments,
                )
            except BufferError:
                self._producer.poll(1.0)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._FATAL:
                    self._begin_anew()
                    raise Retry(f"broker {self._bootstrap} and this producer are out of step: {error}") from error
                raise Stop(
                    f"message of {len(message.payload or b'')} bytes for {message.topic} cannot be sent: {error}"
                ) from error
            else:
                self._producer.poll(0)
                return
        waiting = len(self._producer)
        self._begin_anew()
        raise Retry(f"broker {self._bootstrap} takes nothing more; {waiting} messages wait")

    def flush(self) -> None:
        """Returns when all is acknowledged; Retry where something was not, with the broker's reason.

        After a Retry nothing sent since the last `flush` counts as sent, though some of it may have arrived.
        """
        waiting = self._producer.flush(self._flush_timeout_s)
        failed = self._failed
        if failed or waiting:
            self._begin_anew()
            reason = failed[0] if failed else "no answer"
            raise Retry(
                f"broker {self._bootstrap} did not acknowledge {len(failed) + waiting} messages ({reason}); "
                "nothing was committed, the next try publishes them again"
            )

    def _begin_anew(self) -> None:
        """Another producer: an idempotent one that has lost its place can send no more, and what waits is sent anew."""
        # What was given up here is told to its own list, or a failure of the last try would count in the next.
        self._producer.purge()
        self._failed = []
        self._producer = Producer(self._settings)


class BestEffort:
    """A producer for what may be lost: never waits for the broker; what did not arrive is counted."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        self.lost = 0
        """Messages that were dropped here or refused by the broker."""
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": client_id,
                "acks": 1,
                "compression.type": "lz4",
                "linger.ms": 5,
                "delivery.timeout.ms": _BEST_EFFORT_MS,
                "queue.buffering.max.kbytes": _BEST_EFFORT_KIB,
                "log_level": 0,
            }
        )

    def send(self, message: Outgoing) -> None:
        """Queues a message, or drops it where the queue is full or the broker does not know the topic."""
        arguments: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
        try:
            self._producer.produce(
                message.topic,
                value=message.payload,
                key=message.key,
                headers=list(message.headers),
                on_delivery=self._delivered,
                **arguments,
            )
        except (BufferError, KafkaException):
            self.lost += 1
        self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, sent: Message) -> None:
        self.lost += error is not None
