"""What the ledger says of its progress: the sink behind a front, or the tables of a ClickHouse server.

Shell of infra/front and stream_jobs/ledger.py; decides nothing. Tested in tests/integration/test_status.py.
"""

from pathlib import Path
from typing import Any

from infra.front.place import live_front, status_of
from schemas.names import GPU_USAGE
from stream_jobs.errors import Retry
from stream_jobs.ledger import LedgerError, open_ledger, without_password

_NEXT = "SELECT partition, argMax(next_offset, written_at) FROM ledger_progress WHERE topic = {topic:String} GROUP BY 1"


def ledger_state(url: str | None, directory: Path | None) -> dict[str, Any] | None:
    """State and next offset of each partition; None where no ledger was named, the reason as state where it is away."""
    if url is None and directory is None:
        return None
    front = url or (live_front(directory) if directory else None)
    if front is None:
        return {"state": f"no sink answers for {directory}"}
    if (status := status_of(front)) is not None:
        return status
    try:
        ledger = open_ledger(url=front)
    except (Retry, LedgerError, ValueError) as error:
        return {"state": f"{without_password(front)}: {error}"}
    try:
        offsets = {str(p): int(offset) for p, offset in sorted(ledger.query(_NEXT, {"topic": GPU_USAGE}))}
        return {"state": "running", "topic": GPU_USAGE, "next_offsets": offsets}
    except (Retry, LedgerError) as error:
        return {"state": f"{ledger.place}: {error}"}
    finally:
        ledger.close()
