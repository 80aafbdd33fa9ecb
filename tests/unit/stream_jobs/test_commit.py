"""A commit is made in the generation it was decided in, or not at all, and never waits without end."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]
from aiokafka.consumer.group_coordinator import GroupCoordinator  # type: ignore[import-untyped]
from aiokafka.errors import (  # type: ignore[import-untyped]
    IllegalGenerationError,
    NotCoordinatorForGroupError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)

from stream_jobs import faust_app as subject
from stream_jobs.errors import FencedError, Retry
from stream_jobs.faust_app import FaustShell
from stream_jobs.settings import WorkerSettings

MINE = 7
Answer = Callable[["_Coordinator"], int | Exception]


class _Coordinator(GroupCoordinator):  # type: ignore[misc]
    """aiokafka's own, but for its broker, which answers as told; notes the generation and member of each request."""

    def __init__(self, answers: list[Answer], found: Callable[["_Coordinator"], None] = lambda _: None) -> None:
        self.group_id, self.generation, self.member_id, self.coordinator_id = "g", MINE, "m7", 1
        self._rejoin_needed_fut = self._coordinator_dead_fut = asyncio.get_running_loop().create_future()
        self._answers, self._found = answers, found
        self.sent: list[tuple[int, str]] = []

    def __del__(self, *_: Any) -> None:
        """Nothing is open."""

    async def ensure_coordinator_known(self) -> None:
        """It is there, once it was looked for."""
        self._found(self)
        await asyncio.sleep(0)
        self.coordinator_id = 1

    async def _send_req(self, request: Any) -> Any:
        self.sent.append((request._consumer_group_generation_id, request._consumer_id))
        await asyncio.sleep(0)
        answer = self._answers.pop(0)(self) if self._answers else RequestTimedOutError()
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(topics=[(t, [(p, answer) for p, *_ in places]) for t, places in request._topics])

    def rejoin(self) -> None:
        """The group has a next generation, of which this is a member."""
        self.generation, self.member_id = MINE + 1, "m8"


def _commit(
    answers: list[Answer], found: Callable[[_Coordinator], None] = lambda _: None, assigned: int = 0
) -> tuple[list[tuple[int, str]], Exception | None]:
    """(generation, member) of each request that a commit of generation 7 made, and what it raised."""

    async def run() -> tuple[list[tuple[int, str]], Exception | None]:
        coordinator = _Coordinator(answers, found)
        consumer = SimpleNamespace(_coordinator=coordinator, assignment=lambda: {TopicPartition("t", assigned)})

        async def call(function: Callable[[Any], Awaitable[Any]]) -> Any:
            return await function(consumer)

        async def nothing(*_: object) -> None:
            return None

        shell = FaustShell(WorkerSettings(), nothing, nothing)
        shell._call = call  # type: ignore[method-assign]
        try:
            await shell.commit(MINE, 0, {"t": 5}, "pointer")
        except (FencedError, Retry) as error:
            return coordinator.sent, error
        return coordinator.sent, None

    return asyncio.run(run())


def _rejoined(error: Exception) -> Answer:
    def answer(coordinator: _Coordinator) -> Exception:
        coordinator.rejoin()
        return error

    return answer


def test_commit_is_tried_again_in_its_generation() -> None:
    """A coordinator that moved, loads or did not answer is asked again; every request names generation and member."""
    answers: list[Answer] = [lambda _: RequestTimedOutError(), lambda _: NotCoordinatorForGroupError.errno, lambda _: 0]
    assert _commit(answers) == ([(MINE, "m7")] * 3, None)


def test_commit_that_failed_is_not_made_in_the_next_generation() -> None:
    """Where the group moved on while a request was out, it is not made again under the new generation."""
    sent, error = _commit([_rejoined(RequestTimedOutError()), lambda _: 0])
    assert (sent, str(error)) == ([(MINE, "m7")], "generation 8, not 7")
    assert isinstance(error, FencedError)


def test_commit_that_waited_for_a_coordinator_is_not_made_in_the_next_generation() -> None:
    """Where the group moved on while its coordinator was looked for, nothing is sent."""
    sent, error = _commit([lambda _: 0], found=_Coordinator.rejoin)
    assert (sent, type(error)) == ([], FencedError)


def test_commit_of_a_generation_that_the_group_does_not_know_is_fenced() -> None:
    """The coordinator's word that the generation is over is no reason to try again."""
    sent, error = _commit([lambda _: IllegalGenerationError.errno, lambda _: 0])
    assert (sent, type(error)) == ([(MINE, "m7")], FencedError)


def test_commit_of_a_partition_that_was_taken_away_is_fenced() -> None:
    """What is not assigned any more is not committed."""
    sent, error = _commit([lambda _: 0], assigned=1)
    assert (sent, type(error)) == ([], FencedError)


def test_commit_that_nobody_takes_ends() -> None:
    """A coordinator that takes nothing is a Retry, with its last word, once the time for a commit is up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subject, "COMMIT_S", 0.5)
        sent, error = _commit([])
    assert isinstance(error, Retry)
    assert "RequestTimedOutError" in str(error)
    assert 1 < len(sent) < 10


def test_commit_that_may_not_be_made_is_a_retry_at_once() -> None:
    """A refusal that no further try mends ends the process, which begins again."""
    sent, error = _commit([lambda _: TopicAuthorizationFailedError.errno])
    assert (len(sent), type(error)) == (1, Retry)
