"""The ledger: ClickHouse by URL, or its engine embedded in a directory. The only importer of clickhouse_connect.

Knows connections, inserts and queries; nothing of Kafka or of what a row means. The same calls do the same on both
(tests/contracts/test_ledger.py).
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import pyarrow as pa
from clickhouse_connect import common, get_client
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError, ProgrammingError

from .errors import Retry

DATABASE = "gpumeter"
ENGINE = "engine"
"""Folder of the embedded engine within a ledger directory."""

_INSERT: dict[str, Any] = {
    "async_insert": 0,
    "input_format_null_as_default": 0,
    "max_partitions_per_insert_block": 0,
}
"""Each insert is one block whose fate is known; a null never becomes a 0; a replay may span many days."""

_DISK_CODES, _KEEPER_CODES = {74, 75, 76, 243}, {225, 242, 285, 286, 319, 999}
_NETWORK_CODES, _MEMORY_CODES, _STOPPING_CODES = {95, 96, 209, 210, 279, 326, 499, 573}, {173, 777, 778}, {236, 677}
_BUSY_CODES = {
    159, 160, 198, 201, 202, 203, 241, 252, 394, 425, 439, 696, 700, 735, 745, 749, 762, 763, 776, 1019, 1020,
}  # fmt: skip
OUTSIDE_CODES = _DISK_CODES | _KEEPER_CODES | _BUSY_CODES | _NETWORK_CODES | _MEMORY_CODES | _STOPPING_CODES
"""ClickHouse's codes for time-outs, quotas, network, memory, disk, Keeper, a server that stops, too much at once."""
_IN_BETWEEN = re.compile(r"received HTTP status (5\d\d|408|429)\b")
"""An answer without a code of ClickHouse's: from a balancer before it, which has no server to ask."""
_READ_ONLY_CODE = 164
_UNKNOWN_DATABASE = 81

common.set_setting("autogenerate_session_id", False)


class LedgerError(Exception):
    """ClickHouse refused a statement; `code` is its number (0: none), the text its words."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class NoLedger(LedgerError):
    """There is no ledger at that place, or another process holds it."""


class Ledger:
    """An open ledger; calls raise Retry where ClickHouse is away and LedgerError where it refuses."""

    def __init__(self, client: Client, place: str) -> None:
        self._client = client
        self.place = place

    def insert_arrow(self, table: str, rows: pa.Table, token: str) -> None:
        """Inserts rows as one block, names as columns; a retry with the same token and rows inserts nothing."""
        block = rows.unify_dictionaries().combine_chunks()
        with _explained(self.place):
            self._client.insert_arrow(table, block, settings={**_INSERT, "insert_deduplication_token": token})

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Rows of a SELECT; `{name:Type}` in it takes parameters by name."""
        return self.table(sql, parameters)[1]

    def table(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Column names and rows of a SELECT."""
        with _explained(self.place):
            result = self._client.query(sql, parameters=dict(parameters or {}))
            return tuple(result.column_names), [tuple(row) for row in result.result_rows]

    def arrow(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """A SELECT's answer as an Arrow table."""
        with _explained(self.place):
            return self._client.query_arrow(sql, parameters=dict(parameters or {}))

    def raw(self, sql: str, form: str | None = None, settings: Mapping[str, Any] | None = None) -> bytes:
        """An answer's bytes in a format of ClickHouse's (None: the one that the SQL names)."""
        with _explained(self.place):
            return self._client.raw_query(sql, fmt=form, settings=dict(settings or {}))

    def command(self, sql: str) -> None:
        """Runs a statement that answers nothing."""
        with _explained(self.place):
            self._client.command(sql)

    def close(self) -> None:
        """Lets go of the connection or the engine."""
        self._client.close()


def open_ledger(
    *,
    url: str | None = None,
    directory: Path | None = None,
    create: bool = False,
    read_only: bool = False,
    connect_timeout_s: int = 5,
) -> Ledger:
    """The ledger at a URL (http://user:password@host:port/database) or, embedded, in a directory.

    `create` makes the directory and the database. Retry: no answer; NoLedger: none there, or held by another process;
    ValueError: not a URL of ClickHouse's HTTP interface.
    """
    if url:
        return _finish(*_server(url, connect_timeout_s), create)
    if directory is None:
        raise ValueError("neither a URL nor a directory of a ledger was named")
    return _finish(*_embedded(directory, create, read_only), create)


def without_password(url: str) -> str:
    """The URL with its password masked, for logs and errors."""
    parts = urlsplit(url)
    return url.replace(f":{parts.password}@", ":***@", 1) if parts.password else url


def _server(url: str, timeout_s: int) -> tuple[Client, str, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f"{without_password(url)!r} is not the URL of a ClickHouse: http(s)://[user:password@]host[:port]"
        )
    with _explained(without_password(url)):
        client = get_client(
            interface=parts.scheme,
            host=parts.hostname,
            port=_port(parts),
            username=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password or ""),
            connect_timeout=timeout_s,
        )
    return client, without_password(url), parts.path.strip("/") or DATABASE


def _port(parts: SplitResult) -> int:
    return parts.port or (8443 if parts.scheme == "https" else 8123)


def _embedded(directory: Path, create: bool, read_only: bool) -> tuple[Client, str, str]:
    engine = directory / ENGINE
    if create:
        engine.mkdir(parents=True, exist_ok=True)
    elif not engine.is_dir():
        raise NoLedger(f"there is no ledger in {directory}")
    settings = {"session_timezone": "UTC", **({"readonly": "2"} if read_only else {})}
    try:
        client = get_client(interface="chdb", path=str(engine), settings=settings)
    except ProgrammingError as error:
        raise NoLedger(
            f"the ledger in {directory} cannot be opened: {_words(error)}. One process at a time may hold it: "
            "stop the sink that does, or ask it by the URL in its front.json"
        ) from error
    return client, str(directory), DATABASE


def _finish(client: Client, place: str, database: str, create: bool) -> Ledger:
    ledger = Ledger(client, place)
    try:
        if create:
            ledger.command(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        if (database,) not in ledger.query("SELECT name FROM system.databases"):
            raise NoLedger(f"{place} has no database {database!r}: no ledger was made there", _UNKNOWN_DATABASE)
    except BaseException:
        ledger.close()
        raise
    client.database = database
    return ledger


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Turns the driver's errors into ours."""
    try:
        yield
    except ClickHouseError as error:
        code = int(getattr(error, "code", None) or 0)
        if code == _READ_ONLY_CODE and "readonly mode" in str(error):
            raise LedgerError(f"{_words(error)} (the ledger is only read here)", code) from error
        is_from_between = not code and _IN_BETWEEN.search(str(error)) is not None
        if isinstance(error, OperationalError) or code in OUTSIDE_CODES or is_from_between:
            raise Retry(
                f"ClickHouse at {place} is away: {_words(error)}; nothing is lost, the call can be repeated"
            ) from error
        raise LedgerError(_words(error), code) from error


def _words(error: BaseException) -> str:
    """ClickHouse's own words, without the driver's wrapping."""
    text = str(error)
    at = text.find("DB::Exception:")
    if at >= 0:
        text = text[at + len("DB::Exception:") :]
    return text.split(" (version ")[0].split(" (for url ")[0].strip()
