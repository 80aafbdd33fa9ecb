"""The buffer between two rounds: what fills it makes the reader wait."""

import asyncio

import pytest

from schemas.names import GPU_SAMPLES
from stream_jobs.core.meter import LogRecord
from stream_jobs.intake import Intake
from stream_jobs.lane import Received


def _message(offset: int, size: int) -> Received:
    return Received(GPU_SAMPLES, 0, 1, LogRecord(offset, 0, [], b"x" * size))


@pytest.mark.parametrize(("bounds", "size"), [((3, 1000), 1), ((100, 30), 10)])
def test_reader_waits_while_there_is_no_room(bounds: tuple[int, int], size: int) -> None:
    """At the bound of messages or of bytes the reader waits; `take` gives all in order and lets it go on."""

    async def run() -> None:
        intake = Intake(*bounds)

        async def fill() -> None:
            for offset in range(6):
                await intake.receive(_message(offset, size))

        filling = asyncio.create_task(fill())
        await asyncio.sleep(0.01)
        assert (len(intake), filling.done()) == (3, False)
        assert [message.record.offset for message in intake.take()] == [0, 1, 2]
        await asyncio.sleep(0.01)
        assert [message.record.offset for message in intake.take()] == [3, 4, 5]
        await filling

    asyncio.run(run())
