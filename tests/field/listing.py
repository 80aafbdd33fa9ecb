"""The page of cases, made from the tests: `python -m tests.field.listing` writes it."""

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "field_cases.md"
_HEAD = """# Cases from the field
What operators reported against other tools, and faults read in the code of peers: each goes from the driver's answers,
/proc, the kubelet and the API server through the agent that ships and the meter to rows (`tests/field/node.py`), and
the right value is asserted. `pytest tests -k field_case` runs them. The numbers are those of the collection they were
gathered in; `peer` marks a fault of another tool's code. Made by `make docs`.

| case | test | what holds |
|---|---|---|
"""


def page() -> str:
    """The page."""
    found = []
    for path in sorted(FOLDER.parent.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            case = re.match(r"test_field_case_(peer_[a-z0-9]+|\d+)", getattr(node, "name", ""))
            if isinstance(node, ast.FunctionDef) and case:
                holds = (ast.get_docstring(node) or "").rstrip(".")
                name = case[1].replace("_", " ")
                found.append((name, f"| {name} | `{path.relative_to(FOLDER.parent)}::{node.name}` | {holds} |"))
    return _HEAD + "\n".join(line for _, line in sorted(found)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
