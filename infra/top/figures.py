"""What `gpumeter top` shows: figures of open windows (provisional) or of the last closed, by pod, namespace or GPU.

Shell of the ledger's views; decides nothing. Tested in tests/integration/test_cli_top.py.
"""

from typing import Any, NamedTuple

from stream_jobs.ledger import Ledger

OPEN, CLOSED = "usage_provisional", "usage_current"
NEWEST = 2
"""Open windows that are looked at: the last one to two minutes."""
SORTS = {"used": "used_us", "held": "held_us", "charged": "charged_us", "memory": "memory_bytes"}
PARTS = ("used", "hot idle", "held idle", "unallocated", "host", "unattributed", "unobserved", "use unknown")

_SPAN = "SELECT count(), max(window_start_us), argMax(window_end_us - window_start_us, window_start_us) FROM {source}"
_BY = {
    "pod": ("namespace", "pod_name", "gpu_uuid"),
    "namespace": ("namespace",),
    "gpu": ("node", "gpu_uuid"),
}
_KEYS = {"pod": "cluster, namespace, pod_name, pod_uid, gpu_uuid"}
BY = tuple(_BY)
_AS_OF = {OPEN: "u.as_of_us", CLOSED: "u.window_end_us"}
_ROWS = """
SELECT {names}, count(DISTINCT u.pod_uid) AS pods, sum(u.held_us) AS held_us, sum(u.used_us) AS used_us,
       sqrt(sum(toInt128(u.used_variance_us2))) AS used_plus_minus_us, sum(u.charged_us) AS charged_us,
       sum(toInt128(u.memory_byte_ms)) * 1000 / nullIf(max({as_of}) - min(u.window_start_us), 0) AS memory_bytes,
       sumIf(u.observed_us, u.used_us IS NOT NULL) / sum(u.lifetime_us) AS coverage,
       arrayStringConcat(arraySort(groupUniqArray(u.basis)), '+') AS basis,
       arraySort(groupUniqArrayArray(u.flags)) AS flags,
       toUnixTimestamp64Micro(now64(6)) - max({as_of}) AS age_us
FROM {source} AS u
WHERE holder_kind = 'pod' AND window_start_us >= {{from_us:Int64}}
GROUP BY {keys}
ORDER BY {sort} DESC NULLS LAST, charged_us DESC, {names}
LIMIT {{rows:UInt32}}
"""
_KNOWN = "u.holder_kind = 'pod' AND u.used_us IS NOT NULL"
_PART = "u.weight_slices / u.weight_total"
"""Of a GPU: what a MIG instance is of it."""
_FLEET = f"""
SELECT min(u.window_start_us), max({{as_of}}), uniqExact(u.cluster, u.node, u.parent_uuid), sum(u.charged_us * {_PART}),
       toUnixTimestamp64Micro(now64(6)) - max({{as_of}}),
       sumIf(assumeNotNull(u.used_us) * {_PART}, {_KNOWN}),
       sumIf(assumeNotNull(u.hot_idle_us) * {_PART}, {_KNOWN} AND u.hot_idle_us IS NOT NULL),
       sumIf((u.charged_us - assumeNotNull(u.used_us) - ifNull(u.hot_idle_us, 0)) * {_PART}, {_KNOWN}),
       sumIf(u.charged_us * {_PART}, u.holder_kind = 'unallocated'),
       sumIf(u.charged_us * {_PART}, u.holder_kind = 'host'),
       sumIf(u.charged_us * {_PART}, u.holder_kind = 'unattributed'),
       sumIf(u.charged_us * {_PART}, u.holder_kind = 'unobserved'),
       sumIf(u.charged_us * {_PART}, u.holder_kind = 'pod' AND u.used_us IS NULL)
FROM {{source}} AS u WHERE u.holder_kind != 'violation' AND u.window_start_us >= {{{{from_us:Int64}}}}
"""


class Wanted(NamedTuple):
    """By pod, namespace or gpu; sorted by one of SORTS; at most so many rows; `windows` None: the open ones."""

    by: str = "pod"
    sort: str = "used"
    rows: int = 40
    windows: int | None = None


def figures(ledger: Ledger, wanted: Wanted) -> dict[str, Any]:
    """The figures asked for; those of the last closed windows where no window is open. Times in microseconds."""
    if wanted.windows is None:
        answer = _figures(ledger, wanted, OPEN, NEWEST)
        if answer["gpus"]:
            return answer
    return _figures(ledger, wanted, CLOSED, wanted.windows or _CLOSED_WINDOWS)


_CLOSED_WINDOWS = 5


def _figures(ledger: Ledger, wanted: Wanted, source: str, windows: int) -> dict[str, Any]:
    count, newest_us, length_us = (int(value or 0) for value in ledger.query(_SPAN.format(source=source))[0])
    parameters = {"from_us": newest_us - (windows - 1) * length_us}
    parts = {"source": source, "as_of": _AS_OF[source]}
    fleet = ledger.query(_FLEET.format(**parts), parameters)[0] if count else (0,) * (5 + len(PARTS))
    names = _BY[wanted.by]
    form = {"names": ", ".join(names), "keys": _KEYS.get(wanted.by, f"cluster, {', '.join(names)}")}
    sql = _ROWS.format(**form, sort=SORTS[wanted.sort], **parts)
    columns, found = ledger.table(sql, parameters | {"rows": wanted.rows}) if count else ((), [])
    return {
        "provisional": source == OPEN,
        "by": wanted.by,
        "from_us": int(fleet[0] or 0),
        "to_us": int(fleet[1] or 0),
        "age_us": int(fleet[4] or 0),
        "gpus": int(fleet[2]),
        "lifetime_us": int(fleet[3] or 0),
        "parts_us": {name: int(value or 0) for name, value in zip(PARTS, fleet[5:], strict=True)},
        "rows": [dict(zip(columns, row, strict=True)) for row in found],
    }
