"""The ledger's port: the same class on the embedded engine and through its HTTP front."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from infra.front.engine import Engine
from infra.front.server import Front
from stream_jobs.errors import Retry
from stream_jobs.ledger import ENGINE, Ledger, LedgerError, NoLedger, open_ledger, without_password
from tests.ledger_rows import START_US, WINDOW_US, insert, ledger_in, pod, row


class LedgerContract:
    """What every ledger does."""

    def test_insert_and_query_give_back_the_rows(self, ledger: Ledger) -> None:
        """Inserted figures, nulls and lists come back as they were, by name."""
        insert(ledger, [pod("a", used_us=5, flags=["x", "y"]), row(1)])
        names, rows = ledger.table("SELECT pod_name, used_us, held_us, flags FROM usage_current ORDER BY pod_name DESC")
        assert names == ("pod_name", "used_us", "held_us", "flags")
        assert rows == [("a", 5, None, ["x", "y"]), ("", None, None, [])]

    def test_query_takes_parameters(self, ledger: Ledger) -> None:
        """Parameters arrive as they are, whatever they hold."""
        odd = "it's\ta \\ \n%s {x}"
        rows = ledger.query("SELECT {a:String}, {b:Int64} + 1, '%s'", {"a": odd, "b": 2**40})
        assert rows == [(odd, 2**40 + 1, "%s")]

    def test_retry_of_an_insert_with_its_token_adds_nothing(self, ledger: Ledger) -> None:
        """The same block with the same token is dropped; with another token the key still keeps it single."""
        for _ in range(2):
            insert(ledger, [pod("a"), pod("b", 24 * 60)], offset=7)
        assert ledger.query("SELECT count() FROM usage_ledger") == [(2,)]

    def test_insert_of_null_where_none_is_allowed_is_refused(self, ledger: Ledger) -> None:
        """A null never turns into a 0 on its way."""
        rows = pa.table({"topic": ["t"], "topic_id": ["i"], "partition": pa.array([None], pa.int32())})
        with pytest.raises(LedgerError):
            ledger.insert_arrow("sink_progress", rows, "t")
        assert ledger.query("SELECT count() FROM sink_progress") == [(0,)]

    def test_raw_answers_in_any_format(self, ledger: Ledger) -> None:
        """Formats of ClickHouse come as bytes, with settings, and by the SQL's own FORMAT."""
        sql = "SELECT toInt64(7) AS n, CAST(NULL, 'Nullable(String)') AS s"
        assert ledger.raw(sql, "CSVWithNames") == b'"n","s"\n7,\\N\n'
        assert (
            ledger.raw(sql, "JSONEachRow", {"output_format_json_quote_64bit_integers": "1"}) == b'{"n":"7","s":null}\n'
        )
        assert ledger.raw(f"{sql} FORMAT TSV") == b"7\t\\N\n"

    def test_arrow_gives_a_table(self, ledger: Ledger) -> None:
        """An answer as Arrow has the types of its columns."""
        table = ledger.arrow("SELECT toInt64(number) AS n FROM numbers(3)")
        assert table.to_pydict() == {"n": [0, 1, 2]}
        assert table.schema.field("n").type == pa.int64()

    def test_error_of_sql_has_code_and_words(self, ledger: Ledger) -> None:
        """A refused statement tells ClickHouse's code and what it did not know, without the driver's wrapping."""
        with pytest.raises(LedgerError, match=r"(?s)^Unknown table expression identifier 'nowhere'") as refused:
            ledger.query("SELECT 1 FROM nowhere")
        assert refused.value.code == 60
        with pytest.raises(LedgerError) as refused:
            ledger.raw("SELEC 1", "JSON")
        assert refused.value.code == 62

    def test_many_rows_go_in_and_out(self, ledger: Ledger) -> None:
        """A block of twenty thousand rows of many strings arrives whole."""
        insert(ledger, [pod(f"p{n}", gpu_uuid=f"GPU-{n % 50}", charged_us=1) for n in range(20_000)])
        assert ledger.query("SELECT count(), uniqExact(holder), sum(charged_us) FROM usage_current") == [
            (20_000, 20_000, 20_000)
        ]


class TestEmbeddedLedger(LedgerContract):
    """The engine in this process."""

    @pytest.fixture
    def ledger(self, tmp_path: Path) -> Iterator[Ledger]:
        """An empty ledger in a directory."""
        with ledger_in(tmp_path) as opened:
            yield opened

    def test_read_only_refuses_to_write(self, tmp_path: Path) -> None:
        """A ledger opened to read answers, and refuses to insert or drop."""
        with ledger_in(tmp_path) as opened:
            insert(opened, [row()])
        reading = open_ledger(directory=tmp_path, read_only=True)
        try:
            assert reading.query("SELECT count() FROM usage_current") == [(1,)]
            for statement in (
                "DROP TABLE usage_ledger",
                "SET readonly = 0",
                "INSERT INTO sink_progress (topic) VALUES ('x')",
            ):
                with pytest.raises(LedgerError, match="only read"):
                    reading.command(statement)
        finally:
            reading.close()

    def test_missing_directory_is_no_ledger_and_is_not_made(self, tmp_path: Path) -> None:
        """Asking where no ledger is says so and leaves nothing behind."""
        with pytest.raises(NoLedger, match="no ledger in"):
            open_ledger(directory=tmp_path / "none", read_only=True)
        assert not (tmp_path / "none").exists()

    def test_engine_without_tables_is_no_ledger(self, tmp_path: Path) -> None:
        """A directory with an engine in which no ledger was made says so."""
        (tmp_path / ENGINE).mkdir()
        with pytest.raises(NoLedger, match="has no database 'gpumeter'"):
            open_ledger(directory=tmp_path)


class TestLedgerThroughFront(LedgerContract):
    """clickhouse-connect's HTTP client against the front of the embedded engine."""

    @pytest.fixture
    def front(self, tmp_path: Path) -> Iterator[Front]:
        """A front that may be written through."""
        with ledger_in(tmp_path):
            front = Front(Engine(tmp_path / ENGINE), dict, read_only=False)
            front.start()
            yield front
            front.stop()

    @pytest.fixture
    def ledger(self, front: Front) -> Iterator[Ledger]:
        """The ledger by the front's URL."""
        opened = open_ledger(url=front.url)
        yield opened
        opened.close()

    def test_two_clients_may_ask_at_once(self, front: Front) -> None:
        """Inserts and queries of several clients at once all give whole answers."""
        faults: list[Any] = []

        def work(number: int) -> None:
            try:
                opened = open_ledger(url=front.url)
                for offset in range(10):
                    insert(opened, [pod(f"p{number}", offset, used_us=1)], offset, token=str(number))
                    got = opened.query(
                        "SELECT count() FROM usage_current WHERE pod_name = {p:String}", {"p": f"p{number}"}
                    )
                    assert got == [(offset + 1,)]
                opened.close()
            except BaseException as error:  # noqa: BLE001 told to the test's own thread
                faults.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []

    def test_away_is_a_retry(self, front: Front, ledger: Ledger) -> None:
        """A ClickHouse that went away is Retry, for an open connection and for a new one."""
        front.stop()
        with pytest.raises(Retry, match="is away"):
            ledger.query("SELECT 1")
        with pytest.raises(Retry, match=r"127\.0\.0\.1"):
            open_ledger(url=front.url)
        front.stop = lambda: None  # type: ignore[method-assign] # stopped already

    def test_window_in_url_of_another_database_is_no_ledger(self, front: Front) -> None:
        """A server without the database named in the URL is no ledger."""
        with pytest.raises(NoLedger, match="has no database 'other'"):
            open_ledger(url=f"{front.url}/other")


def test_password_is_never_shown() -> None:
    """The URL in errors and logs has its password masked; what is no URL of ClickHouse is told so."""
    assert without_password("http://me:s3cret@host:1/db") == "http://me:***@host:1/db"
    assert without_password("http://host") == "http://host"
    with pytest.raises(ValueError, match=r"clickhouse://me:\*\*\*@host"):
        open_ledger(url="clickhouse://me:s3cret@host")


def test_times_are_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window's start reads as UTC and is compared with a bare time as UTC, whatever the machine's zone."""
    with ledger_in(tmp_path) as ledger:
        insert(ledger, [row()])
        sql = "SELECT toString(window_start), window_start >= toDateTime('2026-09-21 14:14:00') FROM usage_current"
        assert ledger.query(sql) == [("2026-09-21 14:14:00", 1)]
        assert ledger.query("SELECT timezone()") == [("UTC",)]
    assert START_US % WINDOW_US == 0
