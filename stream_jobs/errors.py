"""The three behaviours of an error in the jobs: try again, dead letter, stop.

Law: each has one exit code or one topic; nothing is swallowed (tests/unit/stream_jobs/test_errors.py).
"""

EXIT_OUTSIDE = 3
EXIT_DEFECT = 4


class Retry(Exception):
    """The outside is away (broker, ClickHouse): nothing is wrong here; a restart later goes on where this ended."""


class DeadLetter(Exception):
    """This record can never succeed; `reason` is one word for counting, the text says what, where and against what."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Stop(Exception):
    """Going on would lose or falsify figures: the process ends with the reason and a person decides."""


class FencedError(Exception):
    """The group has moved on: this worker's generation no longer owns the partition. It is dropped, nothing is lost."""


def exit_code(error: BaseException) -> int:
    """Exit code of a process that ends by `error`: 3 where the outside failed, 4 for everything else."""
    return EXIT_OUTSIDE if isinstance(error, Retry) else EXIT_DEFECT
