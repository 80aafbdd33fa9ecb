from stream_jobs.errors import DeadLetter, Retry, Stop, exit_code


def test_exit_code_tells_outside_from_defect() -> None:
    """A failure of the outside ends with 3, everything else with 4."""
    assert exit_code(Retry("broker away")) == 3
    assert {exit_code(error) for error in (Stop("x"), ValueError("x"), KeyError("x"))} == {4}


def test_dead_letter_has_reason_and_detail() -> None:
    """A dead letter keeps its one-word reason apart from its text."""
    error = DeadLetter("version", "version 9 of reading")
    assert (error.reason, str(error)) == ("version", "version: version 9 of reading")
