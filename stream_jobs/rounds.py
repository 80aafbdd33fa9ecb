"""A round of a worker's work on one lane: feed, close, publish, and the writing of its progress. Blocking.

Owns the order: rows and dead letters are acknowledged before a progress is written, and that before it is committed.
Knows Kafka only through the publisher. Tested in tests/integration/test_worker.py.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from schemas.headers import PROGRESS, Headers, encode_headers
from schemas.names import METER_PROGRESS

from .clock import monotonic_s
from .deadletters import letter_of
from .errors import Retry
from .lane import Lane, ReadPart, Received, Saved
from .progress import Pointer, chunk_key, split
from .publish import Outgoing, Publisher
from .usage_messages import usage_messages

REPAIR_S = 2.0
"""How long the lanes of a round may make revisions, all together; what is left waits for the next."""


def meter_round(
    lane: Lane, messages: Sequence[Received], publisher: Publisher, read: ReadPart, repair_s: float = REPAIR_S
) -> list[tuple[str, str, int, int]]:
    """Feeds a lane and publishes its dead letters, closed windows and revisions; nothing is acknowledged yet.

    Revisions are made for `repair_s`, and the step that is at hand then is ended. The dead letters as (topic, reason,
    how many, offset of the first), for the log.
    """
    refused = lane.feed(messages)
    for each in refused:
        publisher.send(letter_of(each, lane.partition))
    for table in lane.closed():
        for message in usage_messages(table, lane.partition):
            publisher.send(message)
    end_s = monotonic_s() + repair_s
    for table in lane.revised(read, lambda: monotonic_s() > end_s):
        for message in usage_messages(table, lane.partition):
            publisher.send(message)
    counts = Counter((each.topic, each.reason) for each in refused)
    firsts = {(each.topic, each.reason): each.offset for each in reversed(refused)}
    return [(*kind, count, firsts[kind]) for kind, count in counts.items()]


def write_progress(lane: Lane, saved: Saved, publisher: Publisher, group: str) -> Pointer:
    """Pointer to a lane's progress once it lies acknowledged in meter-progress; Retry if it does not."""
    chunks = split(saved.body)
    offsets: dict[int, int] = {}
    headers = encode_headers(Headers(record=PROGRESS, cluster="", seq=lane.generation))
    for number, chunk in enumerate(chunks):
        key = chunk_key(group, lane.partition, lane.generation, lane.writer, saved.slot, number)
        message = Outgoing(METER_PROGRESS, lane.partition, key, headers, chunk)
        publisher.send(message, partial(offsets.__setitem__, number))
    publisher.flush()
    if len(offsets) != len(chunks):
        raise Retry(f"progress of partition {lane.partition}: {len(offsets)} of {len(chunks)} chunks acknowledged")
    return lane.note_saved(saved, [offsets[number] for number in range(len(chunks))])
