"""The demo's way into the ledger once its sink has stopped: embedded, with the truth beside it.

Owns how the truth gets there; the queries are queries.py's. Tested in
tests/e2e/test_demo.py.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from infra.demo.queries import CREATE_TRUTH, TRUTH
from infra.demo.result import Query
from stream_jobs.ledger import open_ledger

Answer = TypeVar("Answer")
TRUTH_BLOCK_ROWS = 100_000


def with_truth(directory: Path, files: Sequence[Path], ask: Callable[[Query], Answer]) -> Answer:
    """`ask` with the embedded ledger, which no other process holds now, and the truth of the files in demo_truth."""
    ledger = open_ledger(directory=directory)
    try:
        ledger.command(f"DROP TABLE IF EXISTS {TRUTH}")
        ledger.command(CREATE_TRUTH)
        for number, block in enumerate(_blocks(files)):
            ledger.insert_arrow(TRUTH, block, f"truth-{number}")
        return ask(ledger.query)
    finally:
        ledger.close()


def _blocks(files: Iterable[Path]) -> Iterable[pa.Table]:
    rows: list[dict[str, Any]] = []
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                rows.append(msgspec.json.decode(line))
                if len(rows) == TRUTH_BLOCK_ROWS:
                    yield pa.Table.from_pylist(rows)
                    rows = []
    if rows:
        yield pa.Table.from_pylist(rows)
