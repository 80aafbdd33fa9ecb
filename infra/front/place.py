"""Where the ledger is: a URL, a directory whose process answers on a front, or a directory to be opened.

Owns front.json, which says by what URL the process that holds a directory answers. Law: a front.json left behind by a
killed process is found out by asking it (tests/integration/test_sink.py).
"""

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from stream_jobs.ledger import Ledger, NoLedger, open_ledger

_FILE = "front.json"
_ANSWER_S = 2.0
_HINT = "make one with `make demo`, or name one with --directory or --url"


def announce(directory: Path, url: str, pid: int) -> None:
    """Writes front.json, whole or not at all."""
    draft = directory / f"{_FILE}.{pid}"
    draft.write_text(json.dumps({"url": url, "pid": pid}))
    draft.replace(directory / _FILE)


def withdraw(directory: Path, pid: int) -> None:
    """Removes front.json, if it is this process's."""
    if (_read(directory) or {}).get("pid") == pid:
        (directory / _FILE).unlink(missing_ok=True)


def live_front(directory: Path) -> str | None:
    """URL of the process that holds the directory, if it answers now."""
    url = (_read(directory) or {}).get("url")
    return str(url) if url and status_of(str(url)) is not None else None


def status_of(url: str) -> dict[str, Any] | None:
    """What the process behind a front says it has done; None without an answer."""
    try:
        with build_opener(ProxyHandler({})).open(f"{url}/status", timeout=_ANSWER_S) as answer:
            status = json.load(answer)
    except (URLError, OSError, ValueError):
        return None
    return status if isinstance(status, dict) else None


def open_to_read(url: str | None, directory: Path) -> Ledger:
    """The ledger to be asked: by URL, else through the front of the directory, else the directory itself, read only.

    NoLedger says how to make one; Retry: ClickHouse is away.
    """
    found = url or live_front(directory)
    try:
        if found:
            return open_ledger(url=found)
        return open_ledger(directory=directory, read_only=True)
    except NoLedger as error:
        raise NoLedger(f"{error}; {_HINT}", error.code) from error


def own_pid() -> int:
    """Process id that front.json names."""
    return os.getpid()


def _read(directory: Path) -> dict[str, Any] | None:
    try:
        content = json.loads((directory / _FILE).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return content if isinstance(content, dict) else None
