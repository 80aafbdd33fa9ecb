"""How a worker's loop ends: quietly when the process was told to end, at once and loudly otherwise."""

import asyncio

import pytest

from stream_jobs import log
from stream_jobs.intake import Intake
from stream_jobs.worker import Worker


class Shell:
    """A shell whose consumer is gone."""

    def __init__(self, stopping: bool) -> None:
        self.is_stopping = stopping

    @property
    def is_settled(self) -> bool:
        """Asks the consumer, which is not there."""
        raise RuntimeError("consumer stopped")


def _worker(monkeypatch: pytest.MonkeyPatch, stopping: bool) -> tuple[Worker, list[BaseException]]:
    worker = Worker.__new__(Worker)
    worker._shell, worker._log, worker._intake = Shell(stopping), log.logger("test"), Intake(1, 1)
    worker._looked_s = 0.0
    deaths: list[BaseException] = []

    def die(error: BaseException) -> None:
        deaths.append(error)
        raise asyncio.CancelledError

    monkeypatch.setattr(worker, "_die", die)
    return worker, deaths


def test_round_that_loses_its_consumer_at_the_end_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGTERM a consumer that went away under a round ends the loop and not the process."""
    worker, deaths = _worker(monkeypatch, stopping=True)
    asyncio.run(worker._loop())
    assert deaths == []


def test_round_that_loses_its_consumer_in_mid_run_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same error while nobody told the process to end is fatal."""
    worker, deaths = _worker(monkeypatch, stopping=False)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(worker._loop())
    assert [str(error) for error in deaths] == ["consumer stopped"]
