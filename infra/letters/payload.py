"""A refused payload as a person can read it: JSON, rows, or bytes in hex.

Knows the codecs of the topics; what they refuse is shown as bytes. Tested in tests/unit/infra/test_letters.py.
"""

import json
from typing import Any

import pyarrow as pa

from schemas.deadletters import DeadLetterRecord
from schemas.names import GPU_SAMPLES, GPU_USAGE
from stream_jobs.decode import DecodeError, decode_reading

MOST_ROWS = 20
_LINE = 16


def decoded(letter: DeadLetterRecord) -> Any:
    """The payload as plain data, at most 20 rows of a table; None where nothing can read it."""
    for read in (_table, _json):
        if (content := read(letter)) is not None:
            return content
    return None


def _table(letter: DeadLetterRecord) -> Any:
    try:
        if letter.topic == GPU_SAMPLES:
            device, process = decode_reading(letter.payload)
            return {"device": _rows(device), "process": _rows(process)}
        if letter.topic == GPU_USAGE:
            return pa.ipc.open_stream(letter.payload).read_all().slice(0, MOST_ROWS).to_pylist()
    except (DecodeError, pa.ArrowException, OSError):
        return None
    return None


def _json(letter: DeadLetterRecord) -> Any:
    try:
        return json.loads(letter.payload)
    except (ValueError, RecursionError):
        return None


def hexdump(payload: bytes, most: int) -> str:
    """Offset, hex and text of the first bytes, 16 a line, and how many are not shown."""
    lines = []
    for at in range(0, min(len(payload), most), _LINE):
        part = payload[at : min(at + _LINE, most)]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{3 * _LINE - 1}}  {text}")
    left = len(payload) - most
    return "\n".join([*lines, f"... {left} more bytes"] if left > 0 else lines)


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    count = min(MOST_ROWS, *(len(column) for column in columns.values()))
    return [{name: _plain(column[row]) for name, column in columns.items()} for row in range(count)]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
