-- Views over usage_ledger: the columns that people, dashboards and bills may rely on.
-- Null is unknown and never zero: a sum over rows of which some are null is the sum of the known ones, and the
-- *_coverage beside it says what part of the time that is; a sum of unknowns only is null. Times are microseconds of
-- one device (GPU or MIG instance); *_plus_minus_* is one standard deviation.

-- The newest revision of every (GPU, window, holder). Keys that were revised are few: they are read apart, so the
-- many others need no search for the newest.
CREATE OR REPLACE VIEW usage_current AS
SELECT cluster, node, gpu_uuid, gpu_model, window_start_us, window_end_us, revision, holder, holder_kind,
       namespace, pod_name, pod_uid, container_name, owner_kind, owner_name, requested_us, held_us, used_us,
       used_variance_us2, resident_us, charged_us, hot_idle_us, memory_byte_ms, energy_mj, observed_us,
       memory_observed_us, energy_observed_us, lifetime_us, weight_slices, weight_total, basis, flags,
       meter_version, window_start, window_end, ingested_at
FROM usage_ledger FINAL
WHERE revision = 0 AND (cluster, node, gpu_uuid, window_start_us, holder) NOT IN (
    SELECT cluster, node, gpu_uuid, window_start_us, holder FROM usage_ledger WHERE revision > 0)
UNION ALL
SELECT cluster, node, gpu_uuid, gpu_model, window_start_us, window_end_us, revision, holder, holder_kind,
       namespace, pod_name, pod_uid, container_name, owner_kind, owner_name, requested_us, held_us, used_us,
       used_variance_us2, resident_us, charged_us, hot_idle_us, memory_byte_ms, energy_mj, observed_us,
       memory_observed_us, energy_observed_us, lifetime_us, weight_slices, weight_total, basis, flags,
       meter_version, window_start, window_end, ingested_at
FROM (SELECT *, window_start, window_end FROM usage_ledger FINAL WHERE revision > 0
      ORDER BY cluster, node, gpu_uuid, window_start_us, holder, revision DESC
      LIMIT 1 BY cluster, node, gpu_uuid, window_start_us, holder)
COMMENT 'The newest revision of each (GPU, window, holder): the current truth';

-- A pod in a window, over all its GPUs and containers.
CREATE OR REPLACE VIEW usage_by_pod_window AS
SELECT
    u.cluster AS cluster, u.namespace AS namespace, u.pod_name AS pod_name, u.pod_uid AS pod_uid,
    u.window_start AS window_start, u.window_start_us AS window_start_us, u.window_end_us AS window_end_us,
    uniqExact(u.gpu_uuid) AS gpus,
    sum(u.requested_us) AS requested_us,
    sum(u.held_us) AS held_us,
    sum(u.used_us) AS used_us,
    sum(toInt128(u.used_variance_us2)) AS used_variance_us2,
    toInt64(round(sqrt(sum(toInt128(u.used_variance_us2))))) AS used_plus_minus_us,
    sum(u.resident_us) AS resident_us,
    sum(u.charged_us) AS charged_us,
    sum(u.hot_idle_us) AS hot_idle_us,
    sum(toInt128(u.memory_byte_ms)) AS memory_byte_ms,
    sum(u.energy_mj) AS energy_mj,
    sumIf(u.lifetime_us, u.held_us IS NOT NULL) / sum(u.lifetime_us) AS held_coverage,
    sumIf(u.observed_us, u.used_us IS NOT NULL) / sum(u.lifetime_us) AS used_coverage,
    sumIf(u.memory_observed_us, u.memory_byte_ms IS NOT NULL) / sum(u.lifetime_us) AS memory_coverage,
    sumIf(u.energy_observed_us, u.energy_mj IS NOT NULL) / sum(u.lifetime_us) AS energy_coverage,
    ['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation']
        [max(indexOf(['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation'], u.basis))] AS basis,
    arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE u.holder_kind = 'pod'
GROUP BY cluster, namespace, pod_name, pod_uid, window_start, window_start_us, window_end_us
COMMENT 'What each pod requested, held, used and was charged, by window';

-- A pod in an hour (UTC).
CREATE OR REPLACE VIEW usage_by_pod_hour AS
SELECT
    u.cluster AS cluster, u.namespace AS namespace, u.pod_name AS pod_name, u.pod_uid AS pod_uid,
    toStartOfHour(u.window_start) AS hour,
    uniqExact(u.gpu_uuid) AS gpus,
    sum(u.requested_us) AS requested_us,
    sum(u.held_us) AS held_us,
    sum(u.used_us) AS used_us,
    sum(toInt128(u.used_variance_us2)) AS used_variance_us2,
    toInt64(round(sqrt(sum(toInt128(u.used_variance_us2))))) AS used_plus_minus_us,
    sum(u.resident_us) AS resident_us,
    sum(u.charged_us) AS charged_us,
    sum(u.hot_idle_us) AS hot_idle_us,
    sum(toInt128(u.memory_byte_ms)) AS memory_byte_ms,
    sum(u.energy_mj) AS energy_mj,
    sumIf(u.lifetime_us, u.held_us IS NOT NULL) / sum(u.lifetime_us) AS held_coverage,
    sumIf(u.observed_us, u.used_us IS NOT NULL) / sum(u.lifetime_us) AS used_coverage,
    sumIf(u.memory_observed_us, u.memory_byte_ms IS NOT NULL) / sum(u.lifetime_us) AS memory_coverage,
    sumIf(u.energy_observed_us, u.energy_mj IS NOT NULL) / sum(u.lifetime_us) AS energy_coverage,
    ['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation']
        [max(indexOf(['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation'], u.basis))] AS basis,
    arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE u.holder_kind = 'pod'
GROUP BY cluster, namespace, pod_name, pod_uid, hour
COMMENT 'What each pod requested, held, used and was charged, by hour (UTC)';

-- A namespace in a day (UTC).
CREATE OR REPLACE VIEW usage_by_namespace_day AS
SELECT
    u.cluster AS cluster, u.namespace AS namespace, toDate(u.window_start) AS day,
    uniqExact(u.pod_uid) AS pods,
    uniqExact(u.gpu_uuid) AS gpus,
    sum(u.requested_us) AS requested_us,
    sum(u.held_us) AS held_us,
    sum(u.used_us) AS used_us,
    sum(toInt128(u.used_variance_us2)) AS used_variance_us2,
    toInt64(round(sqrt(sum(toInt128(u.used_variance_us2))))) AS used_plus_minus_us,
    sum(u.resident_us) AS resident_us,
    sum(u.charged_us) AS charged_us,
    sum(u.hot_idle_us) AS hot_idle_us,
    sum(toInt128(u.memory_byte_ms)) AS memory_byte_ms,
    sum(u.energy_mj) AS energy_mj,
    sumIf(u.lifetime_us, u.held_us IS NOT NULL) / sum(u.lifetime_us) AS held_coverage,
    sumIf(u.observed_us, u.used_us IS NOT NULL) / sum(u.lifetime_us) AS used_coverage,
    sumIf(u.memory_observed_us, u.memory_byte_ms IS NOT NULL) / sum(u.lifetime_us) AS memory_coverage,
    sumIf(u.energy_observed_us, u.energy_mj IS NOT NULL) / sum(u.lifetime_us) AS energy_coverage,
    ['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation']
        [max(indexOf(['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation'], u.basis))] AS basis,
    arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE u.holder_kind = 'pod'
GROUP BY cluster, namespace, day
COMMENT 'What each namespace requested, held, used and was charged, by day (UTC)';

-- A GPU in a window, by what its time was: used_us .. unobserved_us add up to lifetime_us, to the microsecond.
-- Idle is told apart: hot_idle (held, a context of the holder open), held_empty (held, none open), unallocated (granted
-- to nobody). idle_kind_unknown: held and idle, but who was resident is not known; use_unknown: charged to pods whose
-- use the basis cannot say.
CREATE OR REPLACE VIEW usage_by_gpu AS
SELECT
    u.cluster AS cluster, u.node AS node, u.gpu_uuid AS gpu_uuid, any(u.gpu_model) AS gpu_model,
    u.window_start AS window_start, u.window_start_us AS window_start_us, u.window_end_us AS window_end_us,
    any(u.weight_slices) AS weight_slices, any(u.weight_total) AS weight_total,
    uniqExactIf(u.pod_uid, u.holder_kind = 'pod') AS pods,
    max(u.lifetime_us) AS lifetime_us,
    max(u.observed_us) AS observed_us,
    sumIf(assumeNotNull(u.used_us), u.holder_kind = 'pod' AND u.used_us IS NOT NULL) AS used_us,
    sumIf(assumeNotNull(u.hot_idle_us),
          u.holder_kind = 'pod' AND u.used_us IS NOT NULL AND u.hot_idle_us IS NOT NULL) AS hot_idle_us,
    sumIf(u.charged_us - assumeNotNull(u.used_us) - assumeNotNull(u.hot_idle_us),
          u.holder_kind = 'pod' AND u.used_us IS NOT NULL AND u.hot_idle_us IS NOT NULL) AS held_empty_us,
    sumIf(u.charged_us - assumeNotNull(u.used_us),
          u.holder_kind = 'pod' AND u.used_us IS NOT NULL AND u.hot_idle_us IS NULL) AS idle_kind_unknown_us,
    sumIf(u.charged_us, u.holder_kind = 'pod' AND u.used_us IS NULL) AS use_unknown_us,
    sumIf(u.charged_us, u.holder_kind = 'unallocated') AS unallocated_us,
    sumIf(u.charged_us, u.holder_kind = 'host') AS host_us,
    sumIf(u.charged_us, u.holder_kind = 'unattributed') AS unattributed_us,
    sumIf(u.charged_us, u.holder_kind = 'unobserved') AS unobserved_us,
    sum(toInt128(u.memory_byte_ms)) AS memory_byte_ms,
    sum(u.energy_mj) AS energy_mj,
    arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE u.holder_kind != 'violation'
GROUP BY cluster, node, gpu_uuid, window_start, window_start_us, window_end_us
COMMENT 'What each GPU did with its time, by window: used, three kinds of idle, host, unattributed, unobserved';

-- Each pod over all time: requested, held, used and charged GPU-seconds side by side. A ratio counts only the windows
-- in which both its sides are known.
CREATE OR REPLACE VIEW requested_held_used AS
SELECT
    u.cluster AS cluster, u.namespace AS namespace, u.pod_name AS pod_name, u.pod_uid AS pod_uid,
    any(u.owner_kind) AS owner_kind, any(u.owner_name) AS owner_name,
    min(u.window_start) AS first_window, max(u.window_end) AS last_window_end, uniqExact(u.gpu_uuid) AS gpus,
    sum(u.requested_us) / 1e6 AS requested_s,
    sum(u.held_us) / 1e6 AS held_s,
    sum(u.used_us) / 1e6 AS used_s,
    sqrt(sum(toInt128(u.used_variance_us2))) / 1e6 AS used_plus_minus_s,
    sum(u.charged_us) / 1e6 AS charged_s,
    sum(u.hot_idle_us) / 1e6 AS hot_idle_s,
    sumIf(u.used_us, u.held_us IS NOT NULL) / nullIf(sumIf(u.held_us, u.used_us IS NOT NULL), 0) AS used_per_held,
    sumIf(u.used_us, u.requested_us IS NOT NULL)
        / nullIf(sumIf(u.requested_us, u.used_us IS NOT NULL), 0) AS used_per_requested,
    sumIf(u.held_us, u.requested_us IS NOT NULL)
        / nullIf(sumIf(u.requested_us, u.held_us IS NOT NULL), 0) AS held_per_requested,
    sumIf(u.lifetime_us, u.held_us IS NOT NULL) / sum(u.lifetime_us) AS held_coverage,
    sumIf(u.observed_us, u.used_us IS NOT NULL) / sum(u.lifetime_us) AS used_coverage,
    ['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation']
        [max(indexOf(['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation'], u.basis))] AS basis,
    arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE u.holder_kind = 'pod'
GROUP BY cluster, namespace, pod_name, pod_uid
COMMENT 'Each pod: requested, held, used and charged GPU-seconds side by side';

