"""The topic catalogue: what each topic carries, how it is laid out, who writes and reads it. One YAML file per topic.

Knows no broker. Law: every example decodes with today's codecs, and the catalogue names exactly the topics of names.py
(tests/schemas/test_topics.py).
"""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from .names import ALL_TOPICS


class CatalogueError(ValueError):
    """A YAML file of the catalogue cannot be read; names the file, the place and the fault."""


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as it lies in the log; `payload` is its text, `payload_base64` its bytes where it is not text."""

    key: str
    headers: dict[str, str]
    payload: str = ""
    payload_base64: str = ""
    decoded: dict[str, Any] = {}
    """Some of what a reader must see in it."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of message of a topic; `versions` are all that a reader must still understand."""

    record: str
    versions: list[int]
    codec: str
    schema: str
    """Where its columns or fields are defined: `module:name`."""
    examples: list[Example]


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic; those with `alike` have the same partition count, and partition n of each belongs together."""

    name: str
    description: str
    key: str
    partitioner: str
    partitions: int
    alike: bool
    config: dict[str, str]
    producers: list[str]
    consumers: list[str]
    records: list[Record]
    reserved: str = ""
    """Why nothing is written to it yet; empty for a topic in use."""


@cache
def load_catalogue() -> dict[str, Topic]:
    """All topics by name, in the order of names.py; CatalogueError names the file that is wrong."""
    found = {}
    for file in files("schemas.topics").iterdir():
        if file.name.endswith(".yaml"):
            try:
                topic = msgspec.convert(yaml.safe_load(file.read_text()), Topic)
            except (yaml.YAMLError, msgspec.ValidationError) as error:
                raise CatalogueError(f"schemas/topics/{file.name}: {error}") from error
            found[topic.name] = topic
    wrong = found.keys() ^ set(ALL_TOPICS)
    if wrong:
        raise CatalogueError(f"topics in only one of schemas/names.py and schemas/topics: {sorted(wrong)}")
    return {name: found[name] for name in ALL_TOPICS}
