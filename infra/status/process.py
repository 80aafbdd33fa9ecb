"""Asks a process's metrics port how it stands; decides nothing (judge.py does).

Tested on real processes in tests/integration/test_status.py.
"""

from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

from schemas.health import READY_PATH, Health, decode_health
from stream_jobs.metrics import parse

_ANSWER_S = 5.0
Numbers = dict[str, dict[tuple[str, ...], float]]


class ProcessState(NamedTuple):
    """What a process said; `health` None and the `trouble` where it said nothing."""

    address: str
    health: Health | None
    numbers: Numbers
    trouble: str = ""


def ask(address: str) -> ProcessState:
    """State of the process whose metrics port is at host:port."""
    try:
        health = decode_health(_get(address, READY_PATH))
        return ProcessState(address, health, parse(_get(address, "/metrics").decode()))
    except (URLError, OSError, ValueError) as error:
        return ProcessState(address, None, {}, f"{type(error).__name__}: {error}")


def _get(address: str, path: str) -> bytes:
    try:
        with build_opener(ProxyHandler({})).open(f"http://{address}{path}", timeout=_ANSWER_S) as answer:
            return bytes(answer.read())
    except HTTPError as error:
        if error.code != 503:
            raise
        return error.read()
