"""The SQL of the demo's result: what the ledger says, joined with the truth that only the simulation knows.

Owns queries only. Bounds are the simulated time [start, end): the clock runs on after it so that windows close, and
what is metered there is idle. Tested in tests/e2e/test_demo.py.
"""

from schemas.units import US_PER_HOUR

CURRENT = "usage_current"
"""The ledger's view of the newest revision of each row."""
TRUTH = "demo_truth"

TRUTH_METHODS = ("gauge_copied_us", "last_smutil_us", "max_request_usage_us", "whole_device_us")
"""Columns of the truth that hold what methods a to d would have reported."""

CREATE_TRUTH = f"""
CREATE TABLE {TRUTH} (
    node String, gpu_uuid String, namespace String, pod_name String, pod_uid String, container_name String,
    window_start_us Int64, used_us Int64, held_us Int64, resident_us Int64, requested_us Int64,
    {", ".join(f"{name} Int64" for name in TRUTH_METHODS)}
) ENGINE = MergeTree ORDER BY (window_start_us, node, gpu_uuid, pod_uid, container_name)
"""


def _within(start_us: int, end_us: int) -> str:
    return f"window_start_us >= {start_us} AND window_start_us < {end_us}"


def closed_to(end_us: int) -> str:
    """How many (node, GPU) have rows up to the end, and rows in all."""
    done = f"uniqExactIf((node, gpu_uuid), window_end_us >= {end_us} AND holder_kind != 'violation')"
    return f"SELECT {done}, count() FROM usage_ledger"


def pod_hours(start_us: int, end_us: int) -> str:
    """Per (pod, hour): truth, used, variance, windows without a figure, methods a to d."""
    within = _within(start_us, end_us)
    hour = f"intDiv(window_start_us, {US_PER_HOUR})"
    methods = ", ".join(f"sum({name}) AS {name}" for name in TRUTH_METHODS)
    return f"""
SELECT t.used, o.used, o.variance, o.unknown, {", ".join(f"t.{name}" for name in TRUTH_METHODS)}
FROM (SELECT pod_uid, {hour} AS hour, sum(used_us) AS used, {methods}
      FROM {TRUTH} WHERE pod_uid != '' AND {within} GROUP BY pod_uid, hour) AS t
FULL OUTER JOIN
     (SELECT pod_uid, {hour} AS hour, sum(used_us) AS used, sum(used_variance_us2) AS variance,
             countIf(isNull(used_us)) AS unknown
      FROM {CURRENT} WHERE holder_kind = 'pod' AND {within} GROUP BY pod_uid, hour) AS o
ON t.pod_uid = o.pod_uid AND t.hour = o.hour
"""


def pods(start_us: int, end_us: int) -> str:
    """Per pod over the run, most used or charged first: the columns of report.PodFigures."""
    within = _within(start_us, end_us)
    hour = f"intDiv(window_start_us, {US_PER_HOUR})"
    methods = ", ".join(f"sum({name}) AS {name}" for name in TRUTH_METHODS)
    ours = ("requested_us", "held_us", "used_us", "used_variance_us2", "charged_us")
    sums = ", ".join(f"sum({name}) AS {name}" for name in ours)
    return f"""
SELECT namespace, pod_name, pod_uid,
       {", ".join(f"o.{name}" for name in ours)}, t.used, e.worst, {", ".join(f"t.{name}" for name in TRUTH_METHODS)}
FROM (SELECT namespace, pod_name, pod_uid, {sums}
      FROM {CURRENT} WHERE holder_kind = 'pod' AND {within} GROUP BY namespace, pod_name, pod_uid) AS o
FULL OUTER JOIN
     (SELECT namespace, pod_name, pod_uid, sum(used_us) AS used, {methods}
      FROM {TRUTH} WHERE pod_uid != '' AND {within} GROUP BY namespace, pod_name, pod_uid) AS t
USING (namespace, pod_name, pod_uid)
LEFT JOIN
     (SELECT pod_uid, argMax(error, abs(error)) AS worst
      FROM (SELECT pod_uid, {hour} AS hour, sum(used) AS error
            FROM (SELECT pod_uid, window_start_us, ifNull(used_us, 0) AS used FROM {CURRENT}
                  WHERE holder_kind = 'pod' AND {within}
                  UNION ALL
                  SELECT pod_uid, window_start_us, -used_us FROM {TRUTH} WHERE pod_uid != '' AND {within})
            GROUP BY pod_uid, hour)
      GROUP BY pod_uid) AS e
USING (pod_uid)
ORDER BY greatest(t.used, charged_us) DESC, namespace, pod_name
"""


def hardware(start_us: int, end_us: int) -> str:
    """Charged time by kind of holder; a row that reports a violation is no holder."""
    return f"""
SELECT holder_kind, sum(charged_us) FROM {CURRENT}
WHERE holder_kind != 'violation' AND {_within(start_us, end_us)}
GROUP BY holder_kind ORDER BY indexOf(['pod', 'host', 'unattributed', 'unallocated', 'unobserved'], holder_kind)
"""


def totals(start_us: int, end_us: int) -> str:
    """Windows, rows, lifetime and observed time of the hardware, pods."""
    return f"""
SELECT count(), sum(rows), sum(lifetime_us), sum(observed_us),
       (SELECT uniqExact(pod_uid) FROM {CURRENT} WHERE holder_kind = 'pod' AND {_within(start_us, end_us)})
FROM (SELECT count() AS rows, any(lifetime_us) AS lifetime_us, any(observed_us) AS observed_us
      FROM {CURRENT} WHERE holder_kind != 'violation' AND {_within(start_us, end_us)}
      GROUP BY cluster, node, gpu_uuid, window_start_us)
"""


VIOLATIONS = "SELECT count() FROM conservation_violations"
