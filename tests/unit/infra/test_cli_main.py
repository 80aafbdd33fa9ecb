import errno
import os
import subprocess
import sys

import pytest

from infra.cli import catalogue, main
from stream_jobs import errors

HEAVY = ("pyarrow", "faust", "clickhouse_connect", "chdb", "numpy", "confluent_kafka", "pynvml", "structlog", "aiohttp")


def _run(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    program = ["-c", code] if code else ["-m", "infra.cli.main", *arguments]
    return subprocess.run(
        [sys.executable, *program], capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200"}
    )


def test_help_imports_nothing_heavy() -> None:
    """`gpumeter --help` ends 0, names every subcommand and imports no subcommand and no heavy library."""
    code = (
        "import sys; from infra.cli.main import main; code = main(['--help']); "
        "print('LOADED', *sorted({m.partition('.')[0] for m in sys.modules} | "
        "{m for m in sys.modules if m.startswith('infra.cli.')})); sys.exit(code)"
    )
    result = _run(code=code)
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.rpartition("LOADED")[2].split())
    assert not loaded & set(HEAVY)
    assert {m for m in loaded if m.startswith("infra.cli.")} == {
        "infra.cli.main",
        "infra.cli.catalogue",
        "infra.cli.group",
    }
    for name in catalogue.SUBCOMMANDS:
        assert f" {name} " in result.stdout
    assert "130 interrupted" in result.stdout


@pytest.mark.parametrize("name", sorted(set(catalogue.SUBCOMMANDS) - catalogue.PLAIN))
def test_subcommand_help_explains(name: str) -> None:
    """Each subcommand exists, its help ends 0 and shows an example."""
    result = _run(name, "--help")
    assert result.returncode == 0, result.stderr
    assert "gpumeter" in result.stdout
    assert "xample" in result.stdout


def test_version_is_the_installed_one() -> None:
    """`gpumeter --version` prints the distribution's version and ends 0."""
    result = _run("--version")
    assert (result.returncode, result.stdout.split()[0]) == (0, "gpumeter")


def test_wrong_name_exits_2_and_suggests() -> None:
    """An unknown subcommand ends 2 and the nearest name is offered."""
    result = _run("demmo")
    assert result.returncode == 2
    assert "demo" in result.stderr


def test_missing_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that is not installed ends 2 with the extra that brings it, and no traceback."""

    def not_installed(target: str) -> object:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr("infra.cli.group.load", not_installed)
    assert main.main(["worker"]) == 2
    said = capsys.readouterr().err
    assert "gpumeter[jobs]" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (KeyboardInterrupt(), 130),
        (errors.Retry("broker away"), 3),
        (OSError(errno.ENOSPC, "No space left on device"), 3),
        (PermissionError(errno.EACCES, "Permission denied", "build"), 3),
        (RuntimeError("boom"), 4),
        (SystemExit(1), 1),
    ],
)
def test_exit_code_tells_the_kind_of_end(raised: BaseException, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted 130, outside away, disk full or directory closed 3, a defect 4, a difference found 1."""

    def ends(target: str) -> object:
        raise raised

    monkeypatch.setattr("infra.cli.group.load", ends)
    assert main.main(["worker"]) == code
