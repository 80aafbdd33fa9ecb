"""The topic catalogue is true: its examples decode with today's codecs, its names and layouts agree."""

import base64
import importlib
from typing import Any

import msgspec
import pytest

from schemas.catalogue import Example, Record, Topic, load_catalogue
from schemas.clock import decode_clock
from schemas.deadletters import decode_dead_letter
from schemas.gaps import decode_gap
from schemas.headers import Headers, decode_headers, encode_headers, newest_version
from schemas.live import LIVE_COLUMNS
from schemas.names import ALL_TOPICS, GPU_LIVE, GPU_USAGE, INPUT_TOPICS, METER_PROGRESS
from schemas.pods import decode_node, decode_pod
from schemas.rules import decode_rule
from schemas.snapshots import decode_snapshot
from schemas.usage import ALL_COLUMNS
from stream_jobs.decode import arrow_schema, decode_reading
from stream_jobs.progress import Pointer, decode_body, digest
from stream_jobs.usage_rows import UsageMessage, decode_rows

CATALOGUE = load_catalogue()
EXAMPLES = [(t, r, e) for t in CATALOGUE.values() for r in t.records for e in r.examples]


def _rows(record: str, payload: bytes) -> dict[str, Any]:
    columns = {"usage": ALL_COLUMNS, "live": LIVE_COLUMNS}[record]
    message = UsageMessage("topic", 0, 0, 0, encode_headers(Headers(record=record, cluster="")), payload)
    return dict(decode_rows(message, record, arrow_schema(columns)).to_pydict())


def _reading(payload: bytes) -> dict[str, Any]:
    device, process = decode_reading(payload)
    return {name: column.tolist() for name, column in (process | device).items()}


def _progress(payload: bytes) -> dict[str, Any]:
    pointer = Pointer(1, "writer", 0, [0], digest(payload))
    return {"offsets": decode_body(payload, pointer).offsets}


def _decode(record: str, payload: bytes) -> dict[str, Any]:
    plain = {
        "snapshot": decode_snapshot,
        "gap": decode_gap,
        "pod": decode_pod,
        "node": decode_node,
        "clock": lambda p: decode_clock(p, b"", "", 0),
        "dead-letter": decode_dead_letter,
        "rule": decode_rule,
    }
    if record in ("usage", "live"):
        return _rows(record, payload)
    columnar = {"reading": _reading, "progress": _progress}
    if record in columnar:
        return columnar[record](payload)
    decoded = plain[record](payload)  # type: ignore[operator]
    return msgspec.structs.asdict(decoded)


@pytest.mark.parametrize(("topic", "record", "example"), EXAMPLES, ids=[f"{t.name}-{r.record}" for t, r, _ in EXAMPLES])
def test_example_decodes_today(topic: Topic, record: Record, example: Example) -> None:
    """A message as it lies in the log is read by today's codecs and says what the catalogue says it does."""
    headers = decode_headers([(name, value.encode()) for name, value in example.headers.items()])
    assert headers.record == record.record
    assert headers.version in record.versions
    decoded = _decode(record.record, example.payload.encode() or base64.b64decode(example.payload_base64))
    assert example.decoded
    assert {name: decoded[name] for name in example.decoded} == example.decoded


@pytest.mark.parametrize("topic", CATALOGUE.values(), ids=CATALOGUE.keys())
def test_topic_has_records_or_reason(topic: Topic) -> None:
    """Every topic has at least one record with an example of its newest version, or says why it is empty."""
    assert bool(topic.records) != bool(topic.reserved)
    for record in topic.records:
        assert max(record.versions) == newest_version(record.record)
        assert record.examples, f"{topic.name}: {record.record} has no example"


@pytest.mark.parametrize("topic", CATALOGUE.values(), ids=CATALOGUE.keys())
def test_topic_names_real_code(topic: Topic) -> None:
    """What the catalogue names as schema or partitioner exists."""
    names = [name for record in topic.records for name in record.schema.split(", ")]
    for name in [*names, *([topic.partitioner] if ":" in topic.partitioner else [])]:
        module, _, attribute = name.partition(":")
        assert hasattr(importlib.import_module(module), attribute), name


def test_alike_topics_have_one_partition_count() -> None:
    """Partition n of the topics that are partitioned alike belongs together, so they have equally many."""
    alike = {topic.name: topic.partitions for topic in CATALOGUE.values() if topic.alike}
    assert set(alike) == {*INPUT_TOPICS, GPU_USAGE, GPU_LIVE, METER_PROGRESS}
    assert len(set(alike.values())) == 1


def test_input_topics_are_append_only() -> None:
    """Input topics are never compacted and carry the broker's append time, so a replay sees what the first run saw."""
    for name in INPUT_TOPICS:
        assert CATALOGUE[name].config["cleanup.policy"] == "delete"
        assert CATALOGUE[name].config["message.timestamp.type"] == "LogAppendTime"


def test_names_equal_catalogue() -> None:
    """The constants and the YAML files are the same set of topics."""
    assert tuple(CATALOGUE) == ALL_TOPICS
