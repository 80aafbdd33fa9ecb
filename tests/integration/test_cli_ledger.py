"""`gpumeter sql` and `migrate` as a person runs them, on a ledger in a directory and through its front."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.clickhouse import migrate
from infra.front.engine import Engine
from infra.front.place import announce, live_front, own_pid, withdraw
from infra.front.server import Front
from stream_jobs.ledger import ENGINE
from tests.ledger_rows import insert, ledger_in, pod, row


def _run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "infra.cli.main", *arguments]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of two windows that nobody holds."""
    path = tmp_path_factory.mktemp("ledger")
    with ledger_in(path) as ledger:
        insert(
            ledger,
            [
                pod("train", 0, held_us=60_000_000, used_us=30_000_000, used_variance_us2=4 * 10**12),
                pod("train", 1, held_us=60_000_000, used_us=45_000_000, used_variance_us2=12 * 10**12),
                pod("blind", 1, gpu_uuid="GPU-2", basis="allocation", flags=["grant_unknown"]),
                row(0, gpu_uuid="GPU-2"),
            ],
        )
    return path


def test_sql_prints_a_table(directory: Path) -> None:
    """Names, figures and nulls in columns; the number of rows goes to stderr, so that stdout holds the answer only."""
    done = _run(
        "sql", "SELECT pod_name, used_us FROM usage_by_pod_hour ORDER BY pod_name;", "--directory", str(directory)
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["blind", "│", "null"] in lines
    assert ["train", "│", "75000000"] in lines
    assert done.stderr.strip() == "2 rows"


def test_sql_table_in_a_pipe_is_not_cut(directory: Path) -> None:
    """A wide answer keeps its words whole where no terminal bounds it."""
    done = _run("sql", "SELECT repeat('x', 500) AS wide, * FROM usage_current LIMIT 1", "--directory", str(directory))
    assert "x" * 500 in done.stdout
    assert len(done.stdout.splitlines()) == 3


def test_sql_prints_json_and_csv(directory: Path) -> None:
    """--json is an array of objects with numbers as numbers; --csv has names; an empty answer is an empty array."""
    sql = "SELECT pod_name, used_us, memory_byte_ms FROM usage_by_pod_hour ORDER BY pod_name"
    rows = json.loads(_run("sql", sql, "--json", "--directory", str(directory)).stdout)
    assert rows == [
        {"pod_name": "blind", "used_us": None, "memory_byte_ms": None},
        {"pod_name": "train", "used_us": 75_000_000, "memory_byte_ms": None},
    ]
    csv = _run("sql", sql, "--csv", "--directory", str(directory)).stdout
    assert csv.splitlines() == ['"pod_name","used_us","memory_byte_ms"', '"blind",\\N,\\N', '"train",75000000,\\N']
    assert json.loads(_run("sql", f"{sql} LIMIT 0", "--json", "--directory", str(directory)).stdout) == []


def test_sql_reads_standard_input_and_own_format(directory: Path) -> None:
    """ "-" takes the statement from standard input; a FORMAT of its own is left alone; LIKE's % is no parameter."""
    sql = "SELECT count() FROM usage_current WHERE pod_name LIKE '%rain' FORMAT TSV;\n"
    done = _run("sql", "-", "--directory", str(directory), stdin=sql)
    assert (done.returncode, done.stdout) == (0, "2\n")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT nonsense FROM usage_current", "nonsense"),
        ("SELEC 1", "Syntax error"),
        ("", "empty"),
        ("DROP TABLE usage_ledger", "only read"),
    ],
)
def test_sql_tells_what_is_wrong(directory: Path, sql: str, words: str) -> None:
    """Wrong SQL is exit 2 and one message in ClickHouse's words, without a traceback."""
    done = _run("sql", sql, "--directory", str(directory))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_sql_without_a_ledger_says_how_to_make_one(tmp_path: Path) -> None:
    """No ledger, and no ClickHouse at a URL, are exit 3; what is no URL is exit 2."""
    done = _run("sql", "SELECT 1", "--directory", str(tmp_path / "none"))
    assert done.returncode == 3
    assert "make demo" in done.stderr
    assert _run("sql", "SELECT 1", "--url", "http://127.0.0.1:1").returncode == 3
    assert _run("sql", "SELECT 1", "--url", "localhost:8123").returncode == 2
    assert _run("top", "--directory", str(tmp_path / "none")).returncode == 3


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A ledger that this process holds and serves, as the sink does."""
    with ledger_in(tmp_path) as ledger:
        insert(ledger, [pod("live", used_us=7), row(1)])
        front = Front(Engine(tmp_path / ENGINE), lambda: {"state": "running"})
        front.start()
        announce(tmp_path, front.url, own_pid())
        yield tmp_path
        withdraw(tmp_path, own_pid())
        front.stop()


def test_commands_work_while_the_ledger_is_served(served: Path) -> None:
    """sql and top find the front of the process that holds the directory, in every output."""
    assert live_front(served)
    for form in ("--json", "--csv"):
        done = _run("sql", "SELECT pod_name, used_us FROM usage_by_pod_hour", form, "--directory", str(served))
        assert done.returncode == 0, done.stderr
        assert "live" in done.stdout
    assert "live" in _run("sql", "SELECT pod_name FROM usage_by_pod_hour", "--directory", str(served)).stdout
    assert "live" in _run("top", "--directory", str(served)).stdout
    wrong = _run("sql", "SELECT nonsense FROM usage_current", "--directory", str(served))
    assert (wrong.returncode, "nonsense" in wrong.stderr) == (2, True)


def test_front_left_by_a_killed_process_is_found_out(directory: Path) -> None:
    """A front.json whose process is gone does not keep the directory from being opened."""
    announce(directory, "http://127.0.0.1:1", 2**22 + 1)
    try:
        done = _run("sql", "SELECT count() FROM usage_current", "--csv", "--directory", str(directory))
        assert (done.returncode, done.stdout) == (0, '"count()"\n4\n')
    finally:
        (directory / "front.json").unlink()


def test_migrate_plans_applies_and_tells(tmp_path: Path) -> None:
    """--dry-run changes nothing; the first run applies all, the second nothing; --json tells each file."""
    place = ("--directory", str(tmp_path / "ledger"))
    assert _run("migrate", "--dry-run", *place).returncode == 3
    first = json.loads(_run("migrate", "--json", *place).stdout)
    assert [(state["applied"], state["now"]) for state in first] == [(True, True)] * len(migrate.load())
    again = _run("migrate", *place)
    assert again.returncode == 0
    assert again.stdout.splitlines() == [f"{m.name}: applied" for m in migrate.load()]
    assert json.loads(_run("migrate", "--dry-run", "--json", *place).stdout) == [s | {"now": False} for s in first]
