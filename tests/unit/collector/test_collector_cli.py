"""The agent's command line, as a process of its own."""

import json
import subprocess
import sys

import pytest

NEEDED = {"GPUMETER_CLUSTER": "c", "GPUMETER_NODE": "n", "GPUMETER_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
FORBIDDEN = (
    "pyarrow",
    "numpy",
    "faust",
    "pydantic",
    "pydantic_settings",
    "structlog",
    "typer",
    "rich",
    "grpc",
    "grpclib",
)


def _run(*arguments: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "collector.cli", *arguments]
    return subprocess.run(command, env=environment or {}, capture_output=True, text=True, timeout=60)


def test_agent_process_stays_light() -> None:
    """The whole agent is imported without pyarrow, numpy, faust, pydantic, structlog, typer, rich or grpc."""
    code = "import sys, collector.cli, collector.app; print('\\n'.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "collector.agent" in loaded
    assert not loaded & set(FORBIDDEN)
    assert "prometheus_client" not in loaded


def test_cli_help_has_example_settings_and_exit_codes() -> None:
    """--help tells what it does, an example, every setting with its default, and the exit codes."""
    text = _run("--help").stdout
    for words in ("Example:", "GPUMETER_NVML_PERIOD_US", "default 5000000", "required", "Exit codes:"):
        assert words in text


def test_cli_check_settings_prints_what_is_in_force() -> None:
    """--check-settings prints the effective settings as JSON, secrets masked, and ends with 0."""
    result = _run("--check-settings", environment={**NEEDED, "GPUMETER_KAFKA_OPTIONS": '{"sasl.password": "x9y"}'})
    assert result.returncode == 0
    assert json.loads(result.stdout)["nvml_period_us"] == 5_000_000
    assert "x9y" not in result.stdout + result.stderr


@pytest.mark.parametrize("arguments", [(), ("--check-settings",)])
def test_cli_wrong_settings_exit_2(arguments: tuple[str, ...]) -> None:
    """Settings that cannot be used end the process with 2 and the whole list, without a traceback."""
    result = _run(*arguments, environment={"GPUMETER_X": "1"})
    assert result.returncode == 2
    assert "GPUMETER_X" in result.stderr and "GPUMETER_CLUSTER" in result.stderr
    assert "Traceback" not in result.stderr


def test_cli_without_driver_exit_3() -> None:
    """On a machine without the driver's library the agent ends with 3 and says so."""
    result = _run("--once", environment={**NEEDED, "GPUMETER_FOREIGN_PIDS": "true"})
    assert result.returncode == 3
    assert "driver library" in result.stderr or "driver's library" in result.stderr
    assert "Traceback" not in result.stderr
