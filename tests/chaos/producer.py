"""The process that stands for collectors and watcher: sends a seed's messages to Kafka, paced, resending after a kill.

`python -m tests.chaos.producer BOOTSTRAP SEED PLACE HOLD`: PLACE is a file that holds up to where all is acknowledged;
a new life begins there, as a collector does with its spool, so messages in flight at a kill come twice. While there is
a file HOLD, nothing is sent.
"""

import sys
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.plan import make_plan
from tests.chaos.workload import Timed, due_s, messages

_SAVE_S = 0.2
_HELD_STEP_S = 0.05


class _Place:
    """Up to which message all are acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.next = int(path.read_text()) if path.exists() else 0
        self._beyond: set[int] = set()

    def acknowledge(self, number: int) -> None:
        self._beyond.add(number)
        while self.next in self._beyond:
            self._beyond.remove(self.next)
            self.next += 1

    def save(self) -> None:
        draft = self.path.with_suffix(".draft")
        draft.write_text(str(self.next))
        draft.replace(self.path)


def send(bootstrap: str, sent: list[Timed], place: _Place, hold: Path) -> None:
    """Sends what is not acknowledged yet, each when it is due; ends when all is."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "delivery.timeout.ms": 300_000,
            "log_level": 3,
        }
    )
    due = due_s(sent)
    began_s, saved_s = time.monotonic() - due[min(place.next, len(sent) - 1)], time.monotonic()
    for number in range(place.next, len(sent)):
        while hold.exists():
            held_s = time.monotonic()
            producer.poll(_HELD_STEP_S)
            began_s += time.monotonic() - held_s
        while (early_s := began_s + due[number] - time.monotonic()) > 0:
            producer.poll(min(early_s, 0.05))
        message = sent[number]

        def delivered(error: KafkaError | None, _: Message, number: int = number) -> None:
            if error is not None:
                raise SystemExit(f"message {number} was not taken: {error.str()}")
            place.acknowledge(number)

        producer.produce(
            message.topic,
            message.payload,
            message.key,
            partition=message.partition,
            headers=list(message.headers),
            on_delivery=delivered,
        )
        producer.poll(0)
        if time.monotonic() - saved_s > _SAVE_S:
            place.save()
            saved_s = time.monotonic()
    while place.next < len(sent):
        producer.poll(0.1)
    place.save()


if __name__ == "__main__":
    send(sys.argv[1], messages(make_plan(int(sys.argv[2]))), _Place(Path(sys.argv[3])), Path(sys.argv[4]))
