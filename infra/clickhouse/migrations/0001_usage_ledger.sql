-- usage_ledger: every row that the workers published, append-only. One row per (GPU or instance, window, holder,
-- revision), the columns of gpu-usage (schemas/usage.py) and where in Kafka the row was read. Of copies of a key the
-- first published one stays (`_first_wins`): so a replay changes nothing. Ask it through the views, or with FINAL.
-- Order: conservation needs a GPU's window together; pods and namespaces are found by the skip indexes.
CREATE TABLE IF NOT EXISTS usage_ledger
(
    cluster LowCardinality(String) CODEC(ZSTD(1)),
    node LowCardinality(String) CODEC(ZSTD(1)),
    gpu_uuid LowCardinality(String) CODEC(ZSTD(1)),
    gpu_model LowCardinality(String) CODEC(ZSTD(1)),
    window_start_us Int64 CODEC(DoubleDelta, ZSTD(1)),
    window_end_us Int64 CODEC(DoubleDelta, ZSTD(1)),
    revision Int64 CODEC(ZSTD(1)),
    holder LowCardinality(String) CODEC(ZSTD(1)),
    holder_kind LowCardinality(String) CODEC(ZSTD(1)),
    namespace LowCardinality(String) CODEC(ZSTD(1)),
    pod_name LowCardinality(String) CODEC(ZSTD(1)),
    pod_uid LowCardinality(String) CODEC(ZSTD(1)),
    container_name LowCardinality(String) CODEC(ZSTD(1)),
    owner_kind LowCardinality(String) CODEC(ZSTD(1)),
    owner_name LowCardinality(String) CODEC(ZSTD(1)),
    requested_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    held_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    used_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    used_variance_us2 Nullable(Int64) CODEC(T64, ZSTD(1)),
    resident_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    charged_us Int64 CODEC(T64, ZSTD(1)),
    hot_idle_us Nullable(Int64) CODEC(T64, ZSTD(1)),
    memory_byte_ms Nullable(Int64) CODEC(T64, ZSTD(1)),
    energy_mj Nullable(Int64) CODEC(T64, ZSTD(1)),
    observed_us Int64 CODEC(T64, ZSTD(1)),
    memory_observed_us Int64 CODEC(T64, ZSTD(1)),
    energy_observed_us Int64 CODEC(T64, ZSTD(1)),
    lifetime_us Int64 CODEC(T64, ZSTD(1)),
    weight_slices Int32 CODEC(T64, ZSTD(1)),
    weight_total Int32 CODEC(T64, ZSTD(1)),
    basis LowCardinality(String) CODEC(ZSTD(1)),
    flags Array(LowCardinality(String)) CODEC(ZSTD(1)),
    d_held_us Int64 CODEC(T64, ZSTD(1)),
    d_used_us Int64 CODEC(T64, ZSTD(1)),
    d_charged_us Int64 CODEC(T64, ZSTD(1)),
    d_memory_byte_ms Int64 CODEC(T64, ZSTD(1)),
    d_energy_mj Int64 CODEC(T64, ZSTD(1)),
    meter_version Int32 CODEC(ZSTD(1)),
    src_topic_id LowCardinality(String) CODEC(ZSTD(1)),
    src_partition Int32 CODEC(ZSTD(1)),
    cut_samples_offset Int64 CODEC(T64, ZSTD(1)),
    cut_mappings_offset Int64 CODEC(T64, ZSTD(1)),
    cut_events_offset Int64 CODEC(T64, ZSTD(1)),
    out_topic LowCardinality(String) CODEC(ZSTD(1)),
    out_partition Int32 CODEC(ZSTD(1)),
    out_offset UInt64 CODEC(T64, ZSTD(1)),
    ingested_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    -- For people and dashboards: the window's ends as times, to the second.
    window_start DateTime('UTC') MATERIALIZED toDateTime(intDiv(window_start_us, 1000000), 'UTC')
        CODEC(DoubleDelta, ZSTD(1)),
    window_end DateTime('UTC') MATERIALIZED toDateTime(intDiv(window_end_us, 1000000), 'UTC')
        CODEC(DoubleDelta, ZSTD(1)),
    _first_wins UInt64 MATERIALIZED 18446744073709551615 - out_offset CODEC(T64, ZSTD(1)),
    INDEX by_pod_uid pod_uid TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_pod_name pod_name TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_namespace namespace TYPE set(256) GRANULARITY 1,
    INDEX by_revision revision TYPE minmax GRANULARITY 1,
    -- What cannot be a row at all; a law broken by a row that can be is for conservation_violations to show.
    -- 946684800000000 is 2000-01-01, 4102444800000000 is 2100-01-01.
    CONSTRAINT window_is_a_time CHECK window_start_us >= 946684800000000 AND window_start_us < 4102444800000000,
    CONSTRAINT window_has_a_length CHECK window_end_us > window_start_us AND window_end_us <= window_start_us + 86400000000,
    CONSTRAINT key_is_complete CHECK cluster != '' AND node != '' AND gpu_uuid != '' AND holder != '' AND revision >= 0,
    CONSTRAINT weight_is_a_share CHECK weight_slices > 0 AND weight_slices <= weight_total
)
ENGINE = ReplacingMergeTree(_first_wins)
PARTITION BY toYYYYMMDD(window_start)
ORDER BY (cluster, node, gpu_uuid, window_start_us, holder, revision)
SETTINGS non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;

-- sink_progress: up to where each partition of gpu-usage is in the ledger; written after the rows, so a sink that
-- dies in between reads some again, which changes nothing. A re-created topic has another id and starts anew.
CREATE TABLE IF NOT EXISTS sink_progress
(
    topic LowCardinality(String),
    topic_id String,
    partition Int32,
    next_offset UInt64,
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(next_offset)
ORDER BY (topic, topic_id, partition)
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1;
