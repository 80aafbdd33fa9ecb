"""Arrow streams that would be gigabytes once read are refused before they are."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.arrow_framing import refuse_unplain
from stream_jobs.decode import DecodeError, decode_reading
from stream_jobs.errors import DeadLetter
from stream_jobs.usage_rows import UsageMessage, decode_usage
from tests.ledger_rows import headers
from tests.unit.stream_jobs.test_decode import columns

SOME = pa.table({"n": list(range(1000)), "text": ["a", ""] * 500})


def stream(table: pa.Table, codec: str | None) -> bytes:
    """A stream whose batches are compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table, max_chunksize=30_000_000)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("table", [SOME, pa.table({"text": pa.array(["a", "b" * 999]).dictionary_encode()})])
def test_compressed_batches_are_refused(table: pa.Table, codec: str) -> None:
    """Batches and dictionaries; the same stream without compression passes."""
    refuse_unplain(stream(table, None))
    with pytest.raises(ValueError, match="compressed Arrow batch"):
        refuse_unplain(stream(table, codec))


_READS_IT = """
import sys, pyarrow as pa
from stream_jobs.decode import DecodeError, decode_reading
try:
    decode_reading(open(sys.argv[1], "rb").read())
except DecodeError as error:
    print(error, pa.default_memory_pool().max_memory(), sep="\\n")
"""


def test_message_that_unpacks_to_gigabytes_costs_no_memory(tmp_path: Path) -> None:
    """It is refused before Arrow has made room for what it claims to be."""
    zeros = pa.array(np.zeros(20_000_000, np.int64))
    bomb = stream(pa.table({"read_us": zeros}), "zstd")
    (tmp_path / "bomb").write_bytes(bomb)
    done = subprocess.run(
        [sys.executable, "-c", _READS_IT, tmp_path / "bomb"], capture_output=True, text=True, check=True
    )
    why, most_bytes = done.stdout.splitlines()
    assert "compressed Arrow batch" in why and int(most_bytes) < 1_000_000 < zeros.nbytes
    with pytest.raises(DeadLetter, match="compressed"):
        decode_usage(UsageMessage("t", 0, 0, 0, headers(), bomb))


def test_compressed_reading_after_a_plain_one_is_refused_by_the_short_way() -> None:
    """The schema message of both is the same, and only it is known."""
    plain = columns()
    decode_reading(plain)
    source = pa.BufferReader(plain)
    parts = [pa.ipc.open_stream(source).read_all() for _ in range(2)]
    with pytest.raises(DecodeError, match="compressed Arrow batch"):
        decode_reading(b"".join(stream(part, "zstd") for part in parts))


@given(st.binary(max_size=60))
def test_garbage_is_an_error_of_a_kind_that_is_caught(data: bytes) -> None:
    """Whatever the bytes, the reader ends or raises what the decoders turn into a dead letter."""
    with suppress(pa.ArrowException, OSError, ValueError):
        refuse_unplain(data)
