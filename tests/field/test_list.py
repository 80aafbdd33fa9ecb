"""The list of cases is true."""

import ast
import re
from pathlib import Path

FIELD = Path(__file__).parent


def test_every_case_is_listed_with_its_test_and_what_holds() -> None:
    """`field_cases.md` names each test of a case and says what its docstring says, and names no other."""
    listed = dict(re.findall(r"`field/\S+::(\w+)` \| (.+) \|$", (FIELD.parent / "field_cases.md").read_text(), re.M))
    functions = [
        node
        for path in sorted(FIELD.glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_field_case_")
    ]
    assert listed == {one.name: (ast.get_docstring(one) or "").rstrip(".") for one in functions}
