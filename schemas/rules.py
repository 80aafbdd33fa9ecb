"""The rule record, on meter-settings: from a time on, windows of another length or with another lateness. JSON.

Every reader of the log takes the same rules from it: which ones count is decided by the record and its append time
alone (stream_jobs/core/calendar.py). Tested in tests/property/test_calendar.py.
"""

import msgspec

from .limits import Name, Number


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Length and lateness of the windows that start at `effective_us` or later; `note` is for people."""

    effective_us: Number
    window_us: Number
    lateness_us: Number
    note: Name = ""


def encode_rule(rule: Rule) -> bytes:
    """JSON of a rule."""
    return msgspec.json.encode(rule)


def decode_rule(payload: bytes) -> Rule:
    """The rule; ValueError names the place and the fault."""
    return msgspec.json.decode(payload, type=Rule)
