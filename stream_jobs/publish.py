"""Publishes to Kafka and says when all is acknowledged: idempotent, all replicas. The jobs' only Kafka producers.

Knows bytes, not records. Law: `flush` returns only when every message sent before is acknowledged
(tests/integration/test_worker.py kills a worker between the two).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from .errors import Retry, Stop

_DELIVERY_TIMEOUT_S = 60
_FLUSH_TIMEOUT_S = 75.0
_BEST_EFFORT_MS, _BEST_EFFORT_KIB = 5_000, 16_384


class Outgoing(NamedTuple):
    """A message to be sent; `partition` None: by its key."""

    topic: str
    partition: int | None
    key: bytes
    headers: list[tuple[str, bytes]]
    payload: bytes | None


class Publisher:
    """A producer whose failures surface at the next `flush`."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        self._bootstrap = bootstrap_servers
        self._failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": client_id,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                "delivery.timeout.ms": _DELIVERY_TIMEOUT_S * 1000,
                "log_level": 3,
            }
        )

    def send(self, message: Outgoing, acknowledged: Callable[[int], None] | None = None) -> None:
        """Queues a message; `acknowledged` gets its offset. Retry when the queue stays full."""

        def delivered(error: KafkaError | None, sent: Message) -> None:
            if error is not None:
                self._failed.append(f"{message.topic}: {error.str()}")
            elif acknowledged is not None:
                acknowledged(int(sent.offset() or 0))

        arguments: dict[str, Any] = {} if message.partition is None else {"partition": message.partition}
        for _ in range(int(_FLUSH_TIMEOUT_S)):
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
                raise Stop(
                    f"message of {len(message.payload or b'')} bytes for {message.topic} cannot be sent: {error}"
                ) from error
            else:
                self._producer.poll(0)
                return
        raise Retry(f"broker {self._bootstrap} takes nothing more; {len(self._producer)} messages wait")

    def flush(self) -> None:
        """Returns when all is acknowledged; Retry where something was not, with the broker's reason."""
        waiting = self._producer.flush(_FLUSH_TIMEOUT_S)
        if self._failed or waiting:
            reason = self._failed[0] if self._failed else "no answer"
            raise Retry(
                f"broker {self._bootstrap} did not acknowledge {len(self._failed) + waiting} messages ({reason}); "
                "nothing was committed, a restart publishes them again"
            )


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
