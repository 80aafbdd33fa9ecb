from pathlib import Path

from infra.demo.accuracy import METHODS
from infra.demo.picture import save_picture
from infra.demo.report import PodFigures
from infra.demo.result import Result

FIGURES = {"error_points_median": 0.1, "error_points_p99": 0.4, "error_points_max": 0.9, "bias_points": -0.02}


def test_picture_shows_the_pod_and_needs_no_other_host(tmp_path: Path) -> None:
    """The SVG holds the pod's line, and nothing in it is fetched from elsewhere."""
    summary = {
        **FIGURES,
        "pod_hours": 1,
        "methods": {name: {"method": text, **FIGURES} for name, text in METHODS.items()},
        "coverage_2sigma_pct": 95.0,
        "conservation_violations": 0,
        "windows": 1,
        "rows": 1,
    }
    pod = PodFigures("team", "train", "u", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    save_picture(tmp_path / "p.svg", Result([pod], [("pod", 60)], 60, summary))
    text = (tmp_path / "p.svg").read_text()
    assert "team/train" in text
    assert text.count("http") == text.count('xmlns="http://www.w3.org/2000/svg"') + text.count("www.textualize.io")
