"""Command line of `gpumeter doctor`: the node's checks as text or JSON; argparse and plain text, as the agent's own.

Owns the form of what is printed. Tested in tests/unit/collector/test_doctor.py.
"""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Sequence

import msgspec

from .finding import OK, Finding, exit_code
from .node import examine_node

EXAMPLE = """\
Example:
  kubectl exec ds/gpumeter-collector -- gpumeter doctor

Run it where the node agent runs, with the agent's environment, mounts and rights: it reads what the agent reads. It
sends nothing, needs no broker, and a running agent is not disturbed.

Exit codes: 0 no fault (warnings are none); 1 a fault; 2 wrong use.
"""
MARKS = {"ok": "ok", "warning": "WARNING", "fault": "FAULT"}


def main(argv: Sequence[str] | None = None) -> int:
    """Examine this node; the process's exit code."""
    arguments = _parser().parse_args(argv)
    findings = examine_node()
    if arguments.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(findings), indent=2).decode() + "\n")
    else:
        sys.stdout.write(as_text(findings, shutil.get_terminal_size().columns))
    return exit_code(findings)


def as_text(findings: Sequence[Finding], columns: int) -> str:
    """A table of findings; below each that is not ok, what it costs and how to put it right."""
    room = max(len(finding.check) for finding in findings) + 2
    lines = []
    for finding in findings:
        lines += _wrapped(f"{MARKS[finding.state]:<9}{finding.check:<{room}}", finding.seen, columns)
        if finding.state != OK:
            lines += _wrapped(" " * 9 + f"{'costs':<{room}}", finding.cost, columns)
            lines += _wrapped(" " * 9 + f"{'fix':<{room}}", finding.fix, columns)
    counts = [sum(finding.state == state for finding in findings) for state in MARKS]
    lines.append("{} ok, {} warnings, {} faults".format(*counts))
    return "\n".join(lines) + "\n"


def _wrapped(head: str, text: str, columns: int) -> list[str]:
    """`text` beside `head`, its further lines below its first."""
    room = max(columns - len(head), 40)
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line.strip(), room, break_on_hyphens=False)]
    lines = lines or [""]
    return [head + lines[0], *(" " * len(head) + line for line in lines[1:])]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpumeter doctor",
        description="What is wrong on this node: each check with what was seen, what it costs in truth, and the fix.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the findings as a JSON list")
    return parser
