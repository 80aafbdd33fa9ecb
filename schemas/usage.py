"""gpu-usage: closed windows; one row per (GPU or instance, window, holder, revision). Arrow IPC.

Laws: per (gpu, window) sum of charged_us over all rows = lifetime_us, to the microsecond; per (parent, window) sum of
lifetime_us x weight_slices over its devices = the window x weight_total, likewise; a null is unknown and never zero; a
key is published with equal content however often. The ClickHouse ledger has the same columns
(tests/schemas/test_ledger_columns.py holds both ways).
"""

from .columns import Column

USAGE_COLUMNS = (
    Column("cluster", "utf8", "cluster of the node"),
    Column("node", "utf8", "node name"),
    Column("gpu_uuid", "utf8", "GPU, MIG instance, or <GPU>/free: the slices of a GPU in MIG mode in no instance"),
    Column("gpu_model", "utf8", "product name"),
    Column("window_start_us", "int64", "start of the half-open window"),
    Column("window_end_us", "int64", "its end"),
    Column("revision", "int64", "0: first result; else the clock minute (us) whose knowledge it adds"),
    Column("holder", "utf8", "pod uid/container, or host, unattributed, unallocated, unobserved"),
    Column("holder_kind", "utf8", "pod, host, unattributed, unallocated, unobserved, violation"),
    Column("namespace", "utf8", "of the pod, empty where not known"),
    Column("pod_name", "utf8", "of the pod, empty where not known"),
    Column("pod_uid", "utf8", "identity of the pod"),
    Column("container_name", "utf8", "of the container, empty where not known"),
    Column("owner_kind", "utf8", "kind of the top owner, empty without one"),
    Column("owner_name", "utf8", "name of the top owner"),
    Column("requested_us", "int64", "device time its pod spec asks for; 0: asks none; null: spec not known", True),
    Column("held_us", "int64", "device time granted by the scheduler; null: grants not known", True),
    Column("used_us", "int64", "device time with its kernels running; null: the basis cannot say", True),
    Column("used_variance_us2", "int64", "sampling variance of used_us (binomial)", True),
    Column("resident_us", "int64", "observed time with a context of the holder open", True),
    Column("charged_us", "int64", "used plus the holder's part of idle; pseudo-holders: their time"),
    Column("hot_idle_us", "int64", "the part of charged idle during which a context of the holder was open", True),
    Column("memory_byte_ms", "int64", "device memory times time", True),
    Column("energy_mj", "int64", "energy divided like charged", True),
    Column("observed_us", "int64", "time of the window with trustworthy utilisation, of this GPU"),
    Column("memory_observed_us", "int64", "time with process memory known, of this GPU"),
    Column("energy_observed_us", "int64", "time with energy known, of this GPU"),
    Column("lifetime_us", "int64", "time of the window in which it existed; of free slices their times together"),
    Column("weight_slices", "int32", "MIG compute slices of the instance; 1 for free slices, and for a whole GPU"),
    Column("weight_total", "int32", "MIG compute slices of its GPU (7, 4); 1 for a whole GPU"),
    Column("basis", "utf8", "accounting, sampled, gpm, mps_split, equal_split, allocation: the weakest in the window"),
    Column("flags", "list<utf8>", "sorted words: unrequested, grant_unknown, overcommitted, pod_unknown, ..."),
    Column("d_held_us", "int64", "signed difference to the previous revision; null counts as 0"),
    Column("d_used_us", "int64", "as above"),
    Column("d_charged_us", "int64", "as above"),
    Column("d_memory_byte_ms", "int64", "as above"),
    Column("d_energy_mj", "int64", "as above"),
    Column("meter_version", "int32", "version of the estimator and the rules"),
    Column("parent_uuid", "utf8", "GPU that the instance or the free slices are a part of; a GPU is its own"),
)
SAME_AS = {"parent_uuid": "gpu_uuid"}
"""Columns that version 2 added, and the column of version 1 that says what they would have."""

INGEST_COLUMNS = (
    Column("src_topic_id", "utf8", "id of the gpu-samples topic; a re-created topic is a new generation"),
    Column("src_partition", "int32", "input partition"),
    Column("cut_samples_offset", "int64", "gpu-samples below this offset were seen"),
    Column("cut_mappings_offset", "int64", "pod-mappings below this offset were seen"),
    Column("cut_events_offset", "int64", "pod-events below this offset were seen"),
)
"""Evidence of where a row came from; not part of its content (law 7)."""

KEY_COLUMNS = ("cluster", "node", "gpu_uuid", "holder", "window_start_us", "revision")
ALL_COLUMNS = USAGE_COLUMNS + INGEST_COLUMNS
METER_VERSION = 1
