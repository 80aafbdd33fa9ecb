"""The embedded engine as the front asks it: one statement at a time, each in a session of its own.

The only importer of chdb besides clickhouse-connect's own client. The process that fills the ledger holds the same
engine; one engine per process, one process per directory. Tested through the front (tests/integration/test_front.py).
"""

import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import chdb

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE = re.compile(r"Code:\s*(\d+)")
_TRAILING_FORMAT = re.compile(rb"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_INSERT_DATA = re.compile(rb"\s*(INSERT\s+INTO\s+[^;]*?)\s+FORMAT\s+(\w+)[ \t]*(?:\r?\n|$)", re.IGNORECASE)
_SELECT = re.compile(rb"\s*(SELECT|WITH)\b", re.IGNORECASE)
_GAP = rb"(?:\s|/\*.*?\*/|--[^\n]*\n|#[^\n]*\n)+"
_OUTFILE = re.compile(rb"\bINTO" + _GAP + rb"OUTFILE\b", re.IGNORECASE | re.DOTALL)
_NOT_ALLOWED, _SYNTAX, STOPPING = 164, 62, 210


class EngineError(Exception):
    """The engine refused a statement: its code and its words."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class Statement(NamedTuple):
    """A statement with what the request said about it; `data` are the rows of an INSERT sent beside its text."""

    sql: bytes
    data: bytes = b""
    form: str | None = None
    database: str = ""
    settings: Mapping[str, str] = {}
    parameters: Mapping[str, str] = {}
    read_only: bool = True


class Answer(NamedTuple):
    """Bytes of an answer; `form` is None where the statement has no result."""

    body: bytes
    form: str | None
    read_rows: int
    read_bytes: int
    elapsed_ns: int


class Engine:
    """The engine of a directory; safe to be asked from several threads, answers one after the other."""

    def __init__(self, directory: Path) -> None:
        self._path = os.path.realpath(directory)
        self._lock = threading.Lock()
        self._closed = False

    def answer(self, statement: Statement) -> Answer:
        """Runs a statement in a fresh session; EngineError where it is refused."""
        insert = _INSERT_DATA.match(statement.sql)
        if insert is None:
            if b"\0" in statement.sql:
                raise EngineError("Code: 62. DB::Exception: A zero byte in the statement. (SYNTAX_ERROR)", _SYNTAX)
            return self._ask(statement)
        with tempfile.NamedTemporaryFile(prefix="gpumeter-insert-") as rows:
            rows.write(statement.sql[insert.end() :] + statement.data)
            rows.flush()
            sql = insert[1] + f" FROM INFILE {_quoted(rows.name)} FORMAT ".encode() + insert[2]
            return self._ask(statement._replace(sql=sql, data=b""))

    def close(self, patience_s: float = 5.0) -> None:
        """Answers nothing more; waits for the statement that runs, for `patience_s` at most."""
        self._closed = True
        if self._lock.acquire(timeout=patience_s):
            self._lock.release()

    def _ask(self, statement: Statement) -> Answer:
        if statement.read_only and _OUTFILE.search(statement.sql):
            raise EngineError("INTO OUTFILE is not allowed here: this front only reads", _NOT_ALLOWED)
        with self._lock:
            if self._closed:
                raise EngineError("Code: 210. DB::Exception: This process is stopping. (NETWORK_ERROR)", STOPPING)
            session = chdb.connect(self._path)
            try:
                return _answer(session, statement)
            except RuntimeError as error:
                raise _explained(error) from error
            except chdb.ChdbError as error:
                raise _explained(error) from error
            finally:
                session.close()


def _answer(session: Any, statement: Statement) -> Answer:
    if statement.database:
        session.query(f"USE `{statement.database.replace('`', '')}`", "Null")
    session.query("SET session_timezone = 'UTC'", "Null")
    for name, value in statement.settings.items():
        if not _NAME.fullmatch(name):
            raise EngineError(f"{name!r} is not the name of a setting", 115)
        session.query(f"SET {name} = {_quoted(value)}", "Null")
    if statement.read_only:
        session.query("SET readonly = 1", "Null")
    named = _TRAILING_FORMAT.search(statement.sql)
    if named is None and statement.form is None:
        return _tab_separated(session, statement)
    form = named[1].decode() if named else str(statement.form)
    result = session.query(statement.sql, form, params=dict(statement.parameters))
    body = result.bytes() or b""
    if not body and form == "Native" and _SELECT.match(statement.sql):
        body = _native_header(session, statement, statement.sql[: named.start()] if named else statement.sql)
    return Answer(body, form if body or named else None, *_measures(result))


def _native_header(session: Any, statement: Statement, select: bytes) -> bytes:
    """The block without rows that a server sends for an empty result and the embedded engine does not."""
    sql = b"DESCRIBE TABLE (" + select.rstrip().rstrip(b";") + b"\n) FORMAT JSONCompact"
    columns = json.loads(session.query(sql, "JSONCompact", params=dict(statement.parameters)).bytes())["data"]
    texts = [text.encode() for name, kind, *_ in columns for text in (name, kind)]
    return _varint(len(columns)) + _varint(0) + b"".join(_varint(len(text)) + text for text in texts)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _tab_separated(session: Any, statement: Statement) -> Answer:
    """TabSeparated by default; a statement with a result always has a line of names, which tells it from others."""
    result = session.query(statement.sql, "TabSeparatedWithNames", params=dict(statement.parameters))
    body = result.bytes() or b""
    form = "TabSeparated" if body else None
    return Answer(body.partition(b"\n")[2], form, *_measures(result))


def _measures(result: Any) -> tuple[int, int, int]:
    return int(result.rows_read()), int(result.bytes_read()), int(result.elapsed() * 1e9)


def _explained(error: Exception) -> EngineError:
    text = str(error)
    at = text.find("Code:")
    code = _CODE.search(text)
    return EngineError(text[max(at, 0) :].strip(), int(code[1]) if code else 1001)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
