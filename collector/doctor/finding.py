"""A check and what it found. Knows nothing of drivers, kubelets or terminals.

Law: a check that raises is a fault that names the check and the exception, never a traceback and never silence
(tests/unit/collector/test_doctor.py).
"""

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import msgspec

OK: Literal["ok"] = "ok"
WARNING: Literal["warning"] = "warning"
FAULT: Literal["fault"] = "fault"


class Finding(msgspec.Struct, frozen=True):
    """What a check saw; where it is not ok, which figures suffer (`cost`) and what to do (`fix`)."""

    check: str
    state: Literal["ok", "warning", "fault"]
    seen: str
    cost: str = ""
    fix: str = ""


class Check(NamedTuple):
    """A check's name, and what it says where the way in which it failed asks for nothing more exact."""

    name: str
    cost: str
    fix: str

    def ok(self, seen: str) -> Finding:
        """All is as it should be."""
        return Finding(self.name, OK, seen)

    def warning(self, seen: str, cost: str = "", fix: str = "") -> Finding:
        """Metering goes on, with less."""
        return Finding(self.name, WARNING, seen, cost or self.cost, fix or self.fix)

    def fault(self, seen: str, cost: str = "", fix: str = "") -> Finding:
        """Figures are wrong or missing until this is put right."""
        return Finding(self.name, FAULT, seen, cost or self.cost, fix or self.fix)

    def examine(self, look: Callable[[], Finding]) -> Finding:
        """What `look` found; a fault where it raised."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001 whatever is wrong on a node must be told, not end the telling
            return self.fault(f"the check itself failed with {type(error).__name__}: {error}")


def exit_code(findings: Iterable[Finding]) -> int:
    """1 where there is a fault, 0 else."""
    return int(any(finding.state == FAULT for finding in findings))
