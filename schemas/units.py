"""Units and the sentinels that say "not known".

Time is integer microseconds of node event time (`_us`), energy integer millijoules (`_mj`), memory integer bytes
(`_bytes`), utilisation integer points of 100 (`_points`). Unknown is never zero: a column that cannot be null on the
wire carries `ABSENT`, and a call's own answer travels beside it as its NVML return code (`_status`).
"""

US_PER_SECOND = 1_000_000
US_PER_HOUR = 3600 * US_PER_SECOND

ABSENT = -1
"""Value of a wire column whose source gave no number."""

NVML_SUCCESS = 0
NVML_NOT_SUPPORTED = 3
NVML_NOT_FOUND = 6
STATUS_NOT_ASKED = -1
"""Status of a call that the collector did not make (capability known to be off)."""
