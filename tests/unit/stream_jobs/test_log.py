import logging

from stream_jobs.log import _Seldom


def _line(name: str, text: str) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, text, (), None)


def test_library_lines_do_not_flood() -> None:
    """A line of a library passes once in a while, a line of ours always."""
    seldom = _Seldom()
    assert [seldom.filter(_line("aiokafka", "away %s")) for _ in range(3)] == [True, False, False]
    assert seldom.filter(_line("aiokafka", "something else"))
    assert [seldom.filter(_line("gpumeter.worker", "status")) for _ in range(3)] == [True, True, True]
