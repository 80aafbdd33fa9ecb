"""The checksum of a ledger's content: what two ledgers must have in common that come from the same log.

Of each key the row that counts (the first published one), as the tab-separated text of its content columns in the
order of schemas/usage.py; SHA-256 of each, read as a little-endian number; their sum modulo 2 to the 256. So neither
the order of rows nor the number of copies matters, nor where and when a row was read, and every bit of content does.
Law: a duplicated log, and a log replayed from zero into an empty or a full ledger, give the same
(tests/integration/test_replay_on_kafka.py); ClickHouse computes it, others can (tests/integration/test_audit.py).
"""

from typing import NamedTuple

from infra.audit.scope import Scope
from schemas.usage import USAGE_COLUMNS
from stream_jobs.ledger import Ledger

_CONTENT = ", ".join(column.name for column in USAGE_COLUMNS)
_DAY = (
    "window_start >= toDateTime(intDiv({from_us:Int64}, 1000000)) "
    "AND window_start <= toDateTime(intDiv({to_us:Int64}, 1000000))"
)
"""What the condition on window_start_us says already, once more on the column that parts are chosen by."""


class Checksum(NamedTuple):
    """64 hex digits, and of how many rows."""

    hex: str
    rows: int


def checksum(ledger: Ledger, scope: Scope) -> Checksum:
    """The checksum of a part of a ledger."""
    text = f"formatRowNoNewline('TSV', {_CONTENT})"
    total, rows = ledger.query(
        f"SELECT sum(reinterpretAsUInt256(SHA256({text}))), count() FROM usage_ledger FINAL "
        f"WHERE {scope.where()} AND {_DAY}",
        scope.parameters(),
    )[0]
    return Checksum(f"{int(total):064x}", int(rows))
