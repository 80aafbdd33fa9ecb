import json
from pathlib import Path

import pytest

from infra.cli.main import main
from infra.demo.accuracy import METHODS

FIGURES = {"error_points_median": 0.1, "error_points_p99": 0.4, "error_points_max": 0.9, "bias_points": -0.02}


def _summary(out: Path) -> None:
    methods = {name: {"method": text, **FIGURES, "bias_points": 7.25} for name, text in METHODS.items()}
    out.joinpath("summary.json").write_text(json.dumps({**FIGURES, "pod_hours": 12, "methods": methods, "seconds": {}}))


def test_accuracy_shows_the_last_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a scenario the last demo's comparison is printed, ours and the four methods."""
    _summary(tmp_path)
    assert main(["accuracy", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "12 pod-hours" in said
    assert said.count("+7.25") == 4


def test_accuracy_json_is_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints the figures alone."""
    _summary(tmp_path)
    assert main(["accuracy", "--json", "--out", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["methods"]["a"]["bias_points"] == 7.25


def test_accuracy_without_a_demo_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no demo ran it ends 2 and says how to run one."""
    assert main(["accuracy", "--out", str(tmp_path)]) == 2
    assert "gpumeter demo" in capsys.readouterr().err
