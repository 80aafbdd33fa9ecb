"""The state of the ledger's laws: which are broken, how often, and where first. Shell of the ledger's own views.

Tested in tests/integration/test_audit.py.
"""

from dataclasses import dataclass
from typing import Any

from infra.audit.scope import Scope
from stream_jobs.ledger import Ledger

_SIZE = (
    "SELECT count(), uniqExact(cluster, node, gpu_uuid, window_start_us), uniqExact(cluster, node, gpu_uuid), "
    "countIf(revision > 0) FROM usage_ledger FINAL WHERE "
)
_BROKEN = (
    "SELECT law, count(), argMin(tuple(cluster, node, gpu_uuid, window_start_us, holder, revision, expected, found), "
    "(window_start_us, cluster, node, gpu_uuid, holder)) FROM ({view}) GROUP BY law ORDER BY law"
)
_VIOLATIONS = (
    "SELECT law, cluster, node, gpu_uuid, window_start_us, holder, revision, expected, found "
    "FROM conservation_violations WHERE "
)
_COPIES = (
    "SELECT 'copies of a row are equal' AS law, cluster, node, gpu_uuid, window_start_us, holder, revision, "
    "toInt128(1) AS expected, toInt128(copies) AS found FROM differing_copies WHERE "
)
_PLACE = ("cluster", "node", "gpu_uuid", "window_start_us", "holder", "revision", "expected", "found")


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that is broken: how often, and its first place with what was expected and found."""

    law: str
    count: int
    first: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Laws:
    """How much was looked at, and what is broken there."""

    rows: int
    windows: int
    gpus: int
    revised_rows: int
    broken: list[Broken]


def laws(ledger: Ledger, scope: Scope) -> Laws:
    """The laws over a part of a ledger: conservation, revisions that add up, copies that are equal."""
    parameters = scope.parameters()
    rows, windows, gpus, revised = (int(number) for number in ledger.query(_SIZE + scope.where(), parameters)[0])
    broken = []
    for view in (_VIOLATIONS, _COPIES):
        for law, count, first in ledger.query(_BROKEN.format(view=view + scope.where()), parameters):
            broken.append(Broken(str(law), int(count), dict(zip(_PLACE, first, strict=True))))
    return Laws(rows, windows, gpus, revised, broken)
