-- usage_live: provisional figures of windows that are still open, for people who look now; no bill and no audit reads
-- it. The columns of gpu-live (schemas/live.py). A set is the rows of one (GPU, window); of sets of a window the one
-- with the highest `known` counts as a whole: a holder that is not in it any more is gone, so ask usage_provisional.
-- Rows live ten minutes, longer than any window that has readings stays open; losing them costs nothing.
CREATE TABLE IF NOT EXISTS usage_live
(
    cluster LowCardinality(String) CODEC(ZSTD(1)),
    node LowCardinality(String) CODEC(ZSTD(1)),
    gpu_uuid LowCardinality(String) CODEC(ZSTD(1)),
    gpu_model LowCardinality(String) CODEC(ZSTD(1)),
    window_start_us Int64 CODEC(ZSTD(1)),
    window_end_us Int64 CODEC(ZSTD(1)),
    holder LowCardinality(String) CODEC(ZSTD(1)),
    holder_kind LowCardinality(String) CODEC(ZSTD(1)),
    namespace LowCardinality(String) CODEC(ZSTD(1)),
    pod_name LowCardinality(String) CODEC(ZSTD(1)),
    pod_uid LowCardinality(String) CODEC(ZSTD(1)),
    container_name LowCardinality(String) CODEC(ZSTD(1)),
    owner_kind LowCardinality(String) CODEC(ZSTD(1)),
    owner_name LowCardinality(String) CODEC(ZSTD(1)),
    requested_us Nullable(Int64) CODEC(ZSTD(1)),
    held_us Nullable(Int64) CODEC(ZSTD(1)),
    used_us Nullable(Int64) CODEC(ZSTD(1)),
    used_variance_us2 Nullable(Int64) CODEC(ZSTD(1)),
    resident_us Nullable(Int64) CODEC(ZSTD(1)),
    charged_us Int64 CODEC(ZSTD(1)),
    hot_idle_us Nullable(Int64) CODEC(ZSTD(1)),
    memory_byte_ms Nullable(Int64) CODEC(ZSTD(1)),
    energy_mj Nullable(Int64) CODEC(ZSTD(1)),
    observed_us Int64 CODEC(ZSTD(1)),
    memory_observed_us Int64 CODEC(ZSTD(1)),
    energy_observed_us Int64 CODEC(ZSTD(1)),
    lifetime_us Int64 CODEC(ZSTD(1)),
    weight_slices Int32 CODEC(ZSTD(1)),
    weight_total Int32 CODEC(ZSTD(1)),
    basis LowCardinality(String) CODEC(ZSTD(1)),
    flags Array(LowCardinality(String)) CODEC(ZSTD(1)),
    meter_version Int32 CODEC(ZSTD(1)),
    as_of_us Int64 CODEC(ZSTD(1)),
    known Int64 CODEC(ZSTD(1)),
    _known UInt64 MATERIALIZED toUInt64(known) CODEC(ZSTD(1)),
    received_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(_known)
PARTITION BY toStartOfFiveMinutes(received_at)
ORDER BY (cluster, node, gpu_uuid, window_start_us, holder)
TTL toDateTime(received_at) + INTERVAL 10 MINUTE
SETTINGS ttl_only_drop_parts = 1, merge_with_ttl_timeout = 60;

-- What is known of windows that the ledger does not have yet. A node's windows close in order: with one in the ledger,
-- those before it are closed too.
CREATE OR REPLACE VIEW usage_provisional AS
SELECT
    true AS provisional, l.cluster AS cluster, l.node AS node, l.gpu_uuid AS gpu_uuid, l.gpu_model AS gpu_model,
    l.window_start_us AS window_start_us, l.window_end_us AS window_end_us, l.as_of_us AS as_of_us, l.holder AS holder,
    l.holder_kind AS holder_kind, l.namespace AS namespace, l.pod_name AS pod_name, l.pod_uid AS pod_uid,
    l.container_name AS container_name, l.owner_kind AS owner_kind, l.owner_name AS owner_name,
    l.requested_us AS requested_us, l.held_us AS held_us, l.used_us AS used_us,
    l.used_variance_us2 AS used_variance_us2, l.resident_us AS resident_us, l.charged_us AS charged_us,
    l.hot_idle_us AS hot_idle_us, l.memory_byte_ms AS memory_byte_ms, l.energy_mj AS energy_mj,
    l.observed_us AS observed_us, l.memory_observed_us AS memory_observed_us,
    l.energy_observed_us AS energy_observed_us, l.lifetime_us AS lifetime_us, l.weight_slices AS weight_slices,
    l.weight_total AS weight_total, l.basis AS basis, l.flags AS flags, l.meter_version AS meter_version,
    toDateTime(intDiv(l.window_start_us, 1000000), 'UTC') AS window_start,
    fromUnixTimestamp64Micro(l.as_of_us, 'UTC') AS as_of, l.received_at AS received_at
FROM usage_live AS l FINAL
LEFT JOIN (
    SELECT cluster, node, max(window_start_us) AS closed_us FROM usage_ledger
    WHERE window_start >= (SELECT toDateTime(intDiv(min(window_start_us), 1000000), 'UTC') FROM usage_live)
    GROUP BY cluster, node
) AS c ON l.cluster = c.cluster AND l.node = c.node
WHERE l.received_at > now64(3, 'UTC') - INTERVAL 10 MINUTE AND l.window_start_us > ifNull(c.closed_us, 0)
    AND (l.cluster, l.node, l.gpu_uuid, l.window_start_us, l.known) IN (
        SELECT cluster, node, gpu_uuid, window_start_us, max(known) FROM usage_live
        GROUP BY cluster, node, gpu_uuid, window_start_us)
COMMENT 'PROVISIONAL figures of windows that are not closed yet, up to as_of; never billed, gone when the window is in the ledger';

ALTER TABLE usage_provisional
    COMMENT COLUMN provisional 'always true: these figures may still change and are never billed',
    COMMENT COLUMN window_start_us 'start of the open window, microseconds since 1970',
    COMMENT COLUMN window_end_us 'its end; the figures reach to as_of_us',
    COMMENT COLUMN as_of_us 'end of the newest reading in the figures, microseconds since 1970',
    COMMENT COLUMN as_of 'end of the newest reading in the figures, UTC',
    COMMENT COLUMN held_us 'device time granted by the scheduler from window_start to as_of, us; null: grants not known',
    COMMENT COLUMN used_us 'device time with its kernels running so far, us; an estimate, see used_variance_us2; null: not known',
    COMMENT COLUMN used_variance_us2 'sampling variance of used_us, us squared',
    COMMENT COLUMN charged_us 'used plus the part of the idle time so far, us; over all holders it adds up to lifetime_us',
    COMMENT COLUMN lifetime_us 'time from window_start to as_of, us',
    COMMENT COLUMN observed_us 'time so far with trustworthy utilisation of this GPU, us',
    COMMENT COLUMN received_at 'when the ledger got the row';
