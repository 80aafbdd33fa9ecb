"""The report as an SVG for the README, from a real run, by rich's own export.

Law: the picture names no other host, so it shows anywhere (tests/unit/infra/demo/test_picture.py).
"""

import io
import re
from pathlib import Path

from rich.console import Console

from infra.demo.report import print_report
from infra.demo.result import Result

WIDTH = 124
_FONT_FACE = re.compile(r"@font-face \{[^}]*\}\s*")


def save_picture(path: Path, result: Result) -> None:
    """Writes the report as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    print_report(console, *result)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_FONT_FACE.sub("", console.export_svg(title="gpumeter demo")))
