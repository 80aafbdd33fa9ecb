"""Reading parts again, on a consumer that fails."""

import pytest
from confluent_kafka import KafkaError

from stream_jobs.errors import Retry
from stream_jobs.lane import LogGoneError
from stream_jobs.part_reader import PartReader


class _Failed:
    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def error(self) -> KafkaError:
        return self._error

    def offset(self) -> int:
        return 7


class _Consumer:
    def __init__(self, code: int) -> None:
        self._code, self.assigned = code, 0

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 0, 100

    def assign(self, _: object) -> None:
        self.assigned += 1

    def consume(self, *_: object) -> list[_Failed]:
        return [_Failed(self._code)]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        (KafkaError._AUTO_OFFSET_RESET, LogGoneError),
        (KafkaError.OFFSET_OUT_OF_RANGE, LogGoneError),
        (KafkaError._TRANSPORT, Retry),
    ],
)
def test_a_log_that_is_gone_is_no_broker_that_is_away(code: int, wanted: type[Exception]) -> None:
    """What leaves the log under a reader gives the pass up, not the process; and nothing is read on from there."""
    reader, consumer = PartReader("x:1"), _Consumer(code)
    reader._consumer = consumer  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(wanted):
            reader.read(0, "t", 5, 50)
    assert consumer.assigned == 2
