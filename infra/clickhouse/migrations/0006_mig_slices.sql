-- MIG by slices: which GPU an instance is a part of, and figures in GPUs beside those in devices. An instance of 1 of 7
-- slices that was there for 60 s is 60 s of a device, and 60/7 GPU-seconds: *_gpu_s. What of a GPU is in no instance is
-- a device of its own, <GPU>/free, whose times are those of single slices added up.
ALTER TABLE usage_ledger
    ADD COLUMN IF NOT EXISTS parent_uuid LowCardinality(String) DEFAULT gpu_uuid CODEC(ZSTD(1)) AFTER meter_version;

ALTER TABLE usage_live
    ADD COLUMN IF NOT EXISTS parent_uuid LowCardinality(String) DEFAULT gpu_uuid CODEC(ZSTD(1)) AFTER meter_version;

CREATE OR REPLACE VIEW usage_current AS
SELECT cluster, node, gpu_uuid, gpu_model, window_start_us, window_end_us, revision, holder, holder_kind,
       namespace, pod_name, pod_uid, container_name, owner_kind, owner_name, requested_us, held_us, used_us,
       used_variance_us2, resident_us, charged_us, hot_idle_us, memory_byte_ms, energy_mj, observed_us,
       memory_observed_us, energy_observed_us, lifetime_us, weight_slices, weight_total, basis, flags,
       meter_version, window_start, window_end, ingested_at, parent_uuid
FROM usage_ledger FINAL
WHERE revision = 0 AND (cluster, node, gpu_uuid, window_start_us, holder) NOT IN (
    SELECT cluster, node, gpu_uuid, window_start_us, holder FROM usage_ledger WHERE revision > 0)
UNION ALL
SELECT cluster, node, gpu_uuid, gpu_model, window_start_us, window_end_us, revision, holder, holder_kind,
       namespace, pod_name, pod_uid, container_name, owner_kind, owner_name, requested_us, held_us, used_us,
       used_variance_us2, resident_us, charged_us, hot_idle_us, memory_byte_ms, energy_mj, observed_us,
       memory_observed_us, energy_observed_us, lifetime_us, weight_slices, weight_total, basis, flags,
       meter_version, window_start, window_end, ingested_at, parent_uuid
FROM (SELECT *, window_start, window_end FROM usage_ledger FINAL WHERE revision > 0
      ORDER BY cluster, node, gpu_uuid, window_start_us, holder, revision DESC
      LIMIT 1 BY cluster, node, gpu_uuid, window_start_us, holder)
COMMENT 'The newest revision of each (GPU, window, holder): the current truth';

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
    sum(u.requested_us * u.weight_slices / u.weight_total) / 1e6 AS requested_gpu_s,
    sum(u.held_us * u.weight_slices / u.weight_total) / 1e6 AS held_gpu_s,
    sum(u.used_us * u.weight_slices / u.weight_total) / 1e6 AS used_gpu_s,
    sum(u.charged_us * u.weight_slices / u.weight_total) / 1e6 AS charged_gpu_s,
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
    sum(u.requested_us * u.weight_slices / u.weight_total) / 1e6 AS requested_gpu_s,
    sum(u.held_us * u.weight_slices / u.weight_total) / 1e6 AS held_gpu_s,
    sum(u.used_us * u.weight_slices / u.weight_total) / 1e6 AS used_gpu_s,
    sum(u.charged_us * u.weight_slices / u.weight_total) / 1e6 AS charged_gpu_s,
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
    sum(u.requested_us * u.weight_slices / u.weight_total) / 1e6 AS requested_gpu_s,
    sum(u.held_us * u.weight_slices / u.weight_total) / 1e6 AS held_gpu_s,
    sum(u.used_us * u.weight_slices / u.weight_total) / 1e6 AS used_gpu_s,
    sum(u.charged_us * u.weight_slices / u.weight_total) / 1e6 AS charged_gpu_s,
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

CREATE OR REPLACE VIEW usage_by_gpu AS
SELECT
    u.cluster AS cluster, u.node AS node, u.gpu_uuid AS gpu_uuid, any(u.gpu_model) AS gpu_model,
    any(u.parent_uuid) AS parent_uuid,
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

CREATE OR REPLACE VIEW requested_held_used AS
SELECT
    u.cluster AS cluster, u.namespace AS namespace, u.pod_name AS pod_name, u.pod_uid AS pod_uid,
    any(u.owner_kind) AS owner_kind, any(u.owner_name) AS owner_name,
    min(u.window_start) AS first_window, max(u.window_end) AS last_window_end, uniqExact(u.gpu_uuid) AS gpus,
    sum(u.requested_us * u.weight_slices / u.weight_total) / 1e6 AS requested_s,
    sum(u.held_us * u.weight_slices / u.weight_total) / 1e6 AS held_s,
    sum(u.used_us * u.weight_slices / u.weight_total) / 1e6 AS used_s,
    sqrt(sum(u.used_variance_us2 * pow(u.weight_slices / u.weight_total, 2))) / 1e6 AS used_plus_minus_s,
    sum(u.charged_us * u.weight_slices / u.weight_total) / 1e6 AS charged_s,
    sum(u.hot_idle_us * u.weight_slices / u.weight_total) / 1e6 AS hot_idle_s,
    sumIf(u.used_us * u.weight_slices / u.weight_total, u.held_us IS NOT NULL) / nullIf(sumIf(u.held_us * u.weight_slices / u.weight_total, u.used_us IS NOT NULL), 0) AS used_per_held,
    sumIf(u.used_us * u.weight_slices / u.weight_total, u.requested_us IS NOT NULL)
        / nullIf(sumIf(u.requested_us * u.weight_slices / u.weight_total, u.used_us IS NOT NULL), 0) AS used_per_requested,
    sumIf(u.held_us * u.weight_slices / u.weight_total, u.requested_us IS NOT NULL)
        / nullIf(sumIf(u.requested_us * u.weight_slices / u.weight_total, u.held_us IS NOT NULL), 0) AS held_per_requested,
    sumIf(u.lifetime_us * u.weight_slices / u.weight_total, u.held_us IS NOT NULL) / sum(u.lifetime_us * u.weight_slices / u.weight_total) AS held_coverage,
    sumIf(u.observed_us * u.weight_slices / u.weight_total, u.used_us IS NOT NULL) / sum(u.lifetime_us * u.weight_slices / u.weight_total) AS used_coverage,
    ['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation']
        [max(indexOf(['accounting', 'sampled', 'gpm', 'mps_split', 'equal_split', 'allocation'], u.basis))] AS basis,
    arraySort(groupUniqArrayArray(u.flags)) AS flags
FROM usage_current AS u
WHERE u.holder_kind = 'pod'
GROUP BY cluster, namespace, pod_name, pod_uid
COMMENT 'Each pod: requested, held, used and charged GPU-seconds side by side';

CREATE OR REPLACE VIEW conservation_violations AS
WITH windows AS (
    SELECT cluster, node, gpu_uuid, window_start_us, argMax(lifetime_us, revision) AS lifetime, argMax(observed_us, revision) AS observed,
           max(window_end_us) AS window_end, sum(charged_us) AS charged, argMax(parent_uuid, revision) AS parent,
           argMax(weight_slices, revision) AS slices, argMax(weight_total, revision) AS total,
           sumIf(charged_us, holder_kind = 'unobserved') AS unobserved
    FROM usage_current WHERE holder_kind != 'violation'
    GROUP BY cluster, node, gpu_uuid, window_start_us
)
SELECT 'charged adds up to lifetime' AS law, cluster, node, gpu_uuid, window_start_us, '' AS holder, 0 AS revision,
       toInt128(lifetime) AS expected, toInt128(charged) AS found
FROM windows WHERE charged != lifetime
UNION ALL
SELECT 'observed plus unobserved is lifetime', cluster, node, gpu_uuid, window_start_us, '', 0, toInt128(lifetime), toInt128(observed + unobserved)
FROM windows WHERE observed + unobserved != lifetime
UNION ALL
SELECT 'lifetime is within the window', cluster, node, gpu_uuid, window_start_us, '', 0, toInt128(window_end - window_start_us), toInt128(lifetime)
FROM windows WHERE lifetime < 0 OR lifetime > (window_end - window_start_us) * if(endsWith(gpu_uuid, '/free'), total, 1) OR observed < 0 OR observed > lifetime
UNION ALL
SELECT 'instances and free slices add up to their GPU', cluster, node, parent, window_start_us, '', 0,
       toInt128(max(window_end) - window_start_us) * max(total), toInt128(sum(lifetime * slices * if(total = 1, of_gpu, 1)))
FROM (SELECT *, max(total) OVER (PARTITION BY cluster, node, parent, window_start_us) AS of_gpu FROM windows)
WHERE of_gpu > 1
GROUP BY cluster, node, parent, window_start_us
HAVING sum(lifetime * slices * if(total = 1, of_gpu, 1)) != (max(window_end) - window_start_us) * max(total)
UNION ALL
SELECT 'windows do not overlap', cluster, node, gpu_uuid, window_start_us, '', 0, toInt128(before), toInt128(window_start_us)
FROM (SELECT cluster, node, gpu_uuid, window_start_us, lagInFrame(window_end, 1, window_start_us) OVER (
          PARTITION BY cluster, node, gpu_uuid ORDER BY window_start_us ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS before
      FROM windows)
WHERE before > window_start_us
UNION ALL
SELECT 'rows of a window agree on its lifetime', cluster, node, gpu_uuid, window_start_us, '', revision,
       toInt128(min(lifetime_us)), toInt128(max(lifetime_us))
FROM usage_current WHERE holder_kind != 'violation'
GROUP BY cluster, node, gpu_uuid, window_start_us, revision HAVING min(lifetime_us) != max(lifetime_us) OR min(observed_us) != max(observed_us)
UNION ALL
SELECT 'no time is negative', cluster, node, gpu_uuid, window_start_us, holder, revision, toInt128(0),
       toInt128(least(charged_us, ifNull(held_us, 0), ifNull(used_us, 0), ifNull(hot_idle_us, 0),
                      ifNull(resident_us, 0), ifNull(used_variance_us2, 0)))
FROM usage_current WHERE holder_kind != 'violation'
    AND (charged_us < 0 OR held_us < 0 OR used_us < 0 OR hot_idle_us < 0 OR resident_us < 0 OR used_variance_us2 < 0)
UNION ALL
SELECT 'used and hot idle are within charged', cluster, node, gpu_uuid, window_start_us, holder, revision, toInt128(charged_us),
       toInt128(ifNull(used_us, 0) + ifNull(hot_idle_us, 0))
FROM usage_current WHERE holder_kind = 'pod' AND ifNull(used_us, 0) + ifNull(hot_idle_us, 0) > charged_us
UNION ALL
SELECT 'differences add up to the figure', cluster, node, gpu_uuid, window_start_us, holder, revision, toInt128(charged_us), toInt128(d_charged_us)
FROM usage_ledger FINAL WHERE revision = 0 AND (d_charged_us != charged_us OR d_used_us != ifNull(used_us, 0)
    OR d_held_us != ifNull(held_us, 0) OR d_memory_byte_ms != ifNull(memory_byte_ms, 0)
    OR d_energy_mj != ifNull(energy_mj, 0))
UNION ALL
SELECT 'differences add up to the figure', cluster, node, gpu_uuid, window_start_us, holder, max(l.revision), toInt128(argMax(l.charged_us, l.revision)),
       toInt128(sum(l.d_charged_us))
FROM usage_ledger AS l FINAL
WHERE (cluster, node, gpu_uuid, window_start_us, holder) IN (SELECT cluster, node, gpu_uuid, window_start_us, holder FROM usage_ledger WHERE revision > 0)
GROUP BY cluster, node, gpu_uuid, window_start_us, holder
HAVING sum(l.d_charged_us) != argMax(l.charged_us, l.revision)
    OR sum(l.d_used_us) != argMax(ifNull(l.used_us, 0), l.revision)
    OR sum(l.d_held_us) != argMax(ifNull(l.held_us, 0), l.revision)
    OR sum(toInt128(l.d_memory_byte_ms)) != argMax(ifNull(l.memory_byte_ms, 0), l.revision)
    OR sum(l.d_energy_mj) != argMax(ifNull(l.energy_mj, 0), l.revision)
UNION ALL
SELECT concat('the meter reports: ', arrayStringConcat(flags, ', ')), cluster, node, gpu_uuid, window_start_us, holder, revision, toInt128(lifetime_us),
       toInt128(charged_us)
FROM usage_current WHERE holder_kind = 'violation'
COMMENT 'Every broken law of conservation as a row; must be empty';

CREATE OR REPLACE VIEW differing_copies AS
SELECT cluster, node, gpu_uuid, holder, window_start_us, revision, count() AS copies,
       groupArray((out_topic, out_partition, out_offset)) AS origins
FROM usage_ledger
GROUP BY cluster, node, gpu_uuid, holder, window_start_us, revision
HAVING uniqExact((gpu_model, window_end_us, holder_kind, namespace, pod_name, pod_uid, container_name,
                  owner_kind, owner_name, requested_us, held_us, used_us, used_variance_us2, resident_us,
                  charged_us, hot_idle_us, memory_byte_ms, energy_mj, observed_us, memory_observed_us,
                  energy_observed_us, lifetime_us, weight_slices, weight_total, basis, flags, d_held_us,
                  d_used_us, d_charged_us, d_memory_byte_ms, d_energy_mj, meter_version, parent_uuid)) > 1
COMMENT 'Copies of a row that differ and are not merged yet; must be empty';

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
    l.parent_uuid AS parent_uuid,
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

ALTER TABLE usage_current
    COMMENT COLUMN cluster 'cluster of the node',
    COMMENT COLUMN node 'node name',
    COMMENT COLUMN gpu_uuid 'GPU, MIG instance, or <GPU>/free: the slices of a GPU in MIG mode in no instance',
    COMMENT COLUMN gpu_model 'product name',
    COMMENT COLUMN parent_uuid 'GPU that the instance or the free slices are a part of; a GPU is its own',
    COMMENT COLUMN window_start_us 'start of the window, microseconds since 1970',
    COMMENT COLUMN window_end_us 'end of the window, microseconds since 1970',
    COMMENT COLUMN revision '0: first result; else the clock minute (us) whose knowledge it adds',
    COMMENT COLUMN holder 'pod uid/container, or host, unattributed, unallocated, unobserved',
    COMMENT COLUMN holder_kind 'pod; host: processes in no pod; unattributed: seen, owner not known; unallocated: idle that nobody holds; unobserved: nothing is known',
    COMMENT COLUMN namespace 'namespace of the pod',
    COMMENT COLUMN pod_name 'name of the pod; another pod may have it later: pod_uid tells them apart',
    COMMENT COLUMN pod_uid 'identity of the pod',
    COMMENT COLUMN container_name 'container of the pod',
    COMMENT COLUMN owner_kind 'kind of the top owner of the pod, empty without one',
    COMMENT COLUMN owner_name 'name of the top owner',
    COMMENT COLUMN requested_us 'device time that the pod spec asks for, us; 0: asks none; null: spec not known',
    COMMENT COLUMN held_us 'device time granted by the scheduler, us, a slot being its part of the device; null: grants not known',
    COMMENT COLUMN used_us 'device time with its kernels running, us; an estimate, see used_variance_us2 and observed_us; null: not known',
    COMMENT COLUMN used_variance_us2 'sampling variance of used_us, us squared',
    COMMENT COLUMN resident_us 'observed time with a context (process on the GPU) open, us',
    COMMENT COLUMN charged_us 'used plus the part of the idle time, us; over all holders it adds up to lifetime_us',
    COMMENT COLUMN hot_idle_us 'the part of charged idle with a context open, us',
    COMMENT COLUMN memory_byte_ms 'device memory times time, byte milliseconds',
    COMMENT COLUMN energy_mj 'energy, millijoule, divided like charged',
    COMMENT COLUMN observed_us 'time of the window with trustworthy utilisation of this GPU, us',
    COMMENT COLUMN memory_observed_us 'time with process memory known, us',
    COMMENT COLUMN energy_observed_us 'time with energy known, us',
    COMMENT COLUMN lifetime_us 'time of the window in which it existed, us; of free slices their times together',
    COMMENT COLUMN weight_slices 'MIG compute slices of the instance; 1 for free slices, and for a whole GPU',
    COMMENT COLUMN weight_total 'MIG compute slices of its GPU (7, 4); 1 for a whole GPU',
    COMMENT COLUMN basis 'how used was obtained, the weakest: accounting, sampled, gpm, mps_split, equal_split, allocation (held time, no use known)',
    COMMENT COLUMN flags 'what to know about the figures: unrequested (uses a GPU, asks for none), grant_missing (asks for one, the kubelet told of none), granted_elsewhere, grant_unknown, overcommitted, pod_unknown, first_reading, silent (no reading came), used_partial (more of it may have been used: some use has no owner), mig, slices_unknown, mps, ...',
    COMMENT COLUMN meter_version 'version of the estimator and the rules',
    COMMENT COLUMN window_start 'start of the window, UTC',
    COMMENT COLUMN window_end 'end of the window, UTC',
    COMMENT COLUMN ingested_at 'when the ledger got the row';

ALTER TABLE usage_by_pod_window
    COMMENT COLUMN cluster 'cluster of the node',
    COMMENT COLUMN namespace 'namespace of the pod',
    COMMENT COLUMN pod_name 'name of the pod; another pod may have it later: pod_uid tells them apart',
    COMMENT COLUMN pod_uid 'identity of the pod',
    COMMENT COLUMN window_start 'start of the window, UTC',
    COMMENT COLUMN window_start_us 'start of the window, microseconds since 1970',
    COMMENT COLUMN window_end_us 'end of the window, microseconds since 1970',
    COMMENT COLUMN gpus 'how many GPUs',
    COMMENT COLUMN requested_us 'device time that the pod spec asks for, us; 0: asks none; null: spec not known',
    COMMENT COLUMN held_us 'device time granted by the scheduler, us, a slot being its part of the device; null: grants not known',
    COMMENT COLUMN used_us 'device time with its kernels running, us; an estimate, see used_plus_minus and used_coverage; null: not known',
    COMMENT COLUMN used_variance_us2 'sampling variance of used_us, us squared',
    COMMENT COLUMN used_plus_minus_us 'one standard deviation of used_us, us',
    COMMENT COLUMN requested_gpu_s 'GPU-seconds that pod specs ask for, a MIG instance counting by its slices',
    COMMENT COLUMN held_gpu_s 'GPU-seconds granted by the scheduler, a MIG instance counting by its slices',
    COMMENT COLUMN used_gpu_s 'GPU-seconds with kernels running, a MIG instance counting by its slices',
    COMMENT COLUMN charged_gpu_s 'GPU-seconds used plus the part of the idle time, a MIG instance counting by its slices',
    COMMENT COLUMN resident_us 'observed time with a context (process on the GPU) open, us',
    COMMENT COLUMN charged_us 'used plus the part of the idle time, us; over all holders it adds up to lifetime_us',
    COMMENT COLUMN hot_idle_us 'the part of charged idle with a context open, us',
    COMMENT COLUMN memory_byte_ms 'device memory times time, byte milliseconds',
    COMMENT COLUMN energy_mj 'energy, millijoule, divided like charged',
    COMMENT COLUMN held_coverage 'part of the time in which held is known, 0 to 1',
    COMMENT COLUMN used_coverage 'part of the time in which used is known, 0 to 1',
    COMMENT COLUMN memory_coverage 'part of the time in which memory is known, 0 to 1',
    COMMENT COLUMN energy_coverage 'part of the time in which energy is known, 0 to 1',
    COMMENT COLUMN basis 'how used was obtained, the weakest: accounting, sampled, gpm, mps_split, equal_split, allocation (held time, no use known)',
    COMMENT COLUMN flags 'what to know about the figures: unrequested (uses a GPU, asks for none), grant_missing (asks for one, the kubelet told of none), granted_elsewhere, grant_unknown, overcommitted, pod_unknown, first_reading, silent (no reading came), used_partial (more of it may have been used: some use has no owner), mig, slices_unknown, mps, ...';

ALTER TABLE usage_by_pod_hour
    COMMENT COLUMN cluster 'cluster of the node',
    COMMENT COLUMN namespace 'namespace of the pod',
    COMMENT COLUMN pod_name 'name of the pod; another pod may have it later: pod_uid tells them apart',
    COMMENT COLUMN pod_uid 'identity of the pod',
    COMMENT COLUMN hour 'start of the hour, UTC',
    COMMENT COLUMN gpus 'how many GPUs',
    COMMENT COLUMN requested_us 'device time that the pod spec asks for, us; 0: asks none; null: spec not known',
    COMMENT COLUMN held_us 'device time granted by the scheduler, us, a slot being its part of the device; null: grants not known',
    COMMENT COLUMN used_us 'device time with its kernels running, us; an estimate, see used_plus_minus and used_coverage; null: not known',
    COMMENT COLUMN used_variance_us2 'sampling variance of used_us, us squared',
    COMMENT COLUMN used_plus_minus_us 'one standard deviation of used_us, us',
    COMMENT COLUMN requested_gpu_s 'GPU-seconds that pod specs ask for, a MIG instance counting by its slices',
    COMMENT COLUMN held_gpu_s 'GPU-seconds granted by the scheduler, a MIG instance counting by its slices',
    COMMENT COLUMN used_gpu_s 'GPU-seconds with kernels running, a MIG instance counting by its slices',
    COMMENT COLUMN charged_gpu_s 'GPU-seconds used plus the part of the idle time, a MIG instance counting by its slices',
    COMMENT COLUMN resident_us 'observed time with a context (process on the GPU) open, us',
    COMMENT COLUMN charged_us 'used plus the part of the idle time, us; over all holders it adds up to lifetime_us',
    COMMENT COLUMN hot_idle_us 'the part of charged idle with a context open, us',
    COMMENT COLUMN memory_byte_ms 'device memory times time, byte milliseconds',
    COMMENT COLUMN energy_mj 'energy, millijoule, divided like charged',
    COMMENT COLUMN held_coverage 'part of the time in which held is known, 0 to 1',
    COMMENT COLUMN used_coverage 'part of the time in which used is known, 0 to 1',
    COMMENT COLUMN memory_coverage 'part of the time in which memory is known, 0 to 1',
    COMMENT COLUMN energy_coverage 'part of the time in which energy is known, 0 to 1',
    COMMENT COLUMN basis 'how used was obtained, the weakest: accounting, sampled, gpm, mps_split, equal_split, allocation (held time, no use known)',
    COMMENT COLUMN flags 'what to know about the figures: unrequested (uses a GPU, asks for none), grant_missing (asks for one, the kubelet told of none), granted_elsewhere, grant_unknown, overcommitted, pod_unknown, first_reading, silent (no reading came), used_partial (more of it may have been used: some use has no owner), mig, slices_unknown, mps, ...';

ALTER TABLE usage_by_namespace_day
    COMMENT COLUMN cluster 'cluster of the node',
    COMMENT COLUMN namespace 'namespace of the pod',
    COMMENT COLUMN day 'UTC day',
    COMMENT COLUMN pods 'how many pods',
    COMMENT COLUMN gpus 'how many GPUs',
    COMMENT COLUMN requested_us 'device time that the pod spec asks for, us; 0: asks none; null: spec not known',
    COMMENT COLUMN held_us 'device time granted by the scheduler, us, a slot being its part of the device; null: grants not known',
    COMMENT COLUMN used_us 'device time with its kernels running, us; an estimate, see used_plus_minus and used_coverage; null: not known',
    COMMENT COLUMN used_variance_us2 'sampling variance of used_us, us squared',
    COMMENT COLUMN used_plus_minus_us 'one standard deviation of used_us, us',
    COMMENT COLUMN requested_gpu_s 'GPU-seconds that pod specs ask for, a MIG instance counting by its slices',
    COMMENT COLUMN held_gpu_s 'GPU-seconds granted by the scheduler, a MIG instance counting by its slices',
    COMMENT COLUMN used_gpu_s 'GPU-seconds with kernels running, a MIG instance counting by its slices',
    COMMENT COLUMN charged_gpu_s 'GPU-seconds used plus the part of the idle time, a MIG instance counting by its slices',
    COMMENT COLUMN resident_us 'observed time with a context (process on the GPU) open, us',
    COMMENT COLUMN charged_us 'used plus the part of the idle time, us; over all holders it adds up to lifetime_us',
    COMMENT COLUMN hot_idle_us 'the part of charged idle with a context open, us',
    COMMENT COLUMN memory_byte_ms 'device memory times time, byte milliseconds',
    COMMENT COLUMN energy_mj 'energy, millijoule, divided like charged',
    COMMENT COLUMN held_coverage 'part of the time in which held is known, 0 to 1',
    COMMENT COLUMN used_coverage 'part of the time in which used is known, 0 to 1',
    COMMENT COLUMN memory_coverage 'part of the time in which memory is known, 0 to 1',
    COMMENT COLUMN energy_coverage 'part of the time in which energy is known, 0 to 1',
    COMMENT COLUMN basis 'how used was obtained, the weakest: accounting, sampled, gpm, mps_split, equal_split, allocation (held time, no use known)',
    COMMENT COLUMN flags 'what to know about the figures: unrequested (uses a GPU, asks for none), grant_missing (asks for one, the kubelet told of none), granted_elsewhere, grant_unknown, overcommitted, pod_unknown, first_reading, silent (no reading came), used_partial (more of it may have been used: some use has no owner), mig, slices_unknown, mps, ...';

ALTER TABLE usage_by_gpu
    COMMENT COLUMN cluster 'cluster of the node',
    COMMENT COLUMN node 'node name',
    COMMENT COLUMN gpu_uuid 'GPU, MIG instance, or <GPU>/free: the slices of a GPU in MIG mode in no instance',
    COMMENT COLUMN gpu_model 'product name',
    COMMENT COLUMN parent_uuid 'GPU that the instance or the free slices are a part of; a GPU is its own',
    COMMENT COLUMN window_start 'start of the window, UTC',
    COMMENT COLUMN window_start_us 'start of the window, microseconds since 1970',
    COMMENT COLUMN window_end_us 'end of the window, microseconds since 1970',
    COMMENT COLUMN weight_slices 'MIG compute slices of the instance; 1 for free slices, and for a whole GPU',
    COMMENT COLUMN weight_total 'MIG compute slices of its GPU (7, 4); 1 for a whole GPU',
    COMMENT COLUMN pods 'how many pods',
    COMMENT COLUMN lifetime_us 'time of the window in which it existed, us; of free slices their times together',
    COMMENT COLUMN observed_us 'time of the window with trustworthy utilisation of this GPU, us',
    COMMENT COLUMN used_us 'time with kernels of pods running, us',
    COMMENT COLUMN hot_idle_us 'idle charged to pods that had a context open, us',
    COMMENT COLUMN held_empty_us 'idle charged to pods that held the GPU without a context, us',
    COMMENT COLUMN idle_kind_unknown_us 'idle charged to pods of which it is not known whether a context was open, us',
    COMMENT COLUMN use_unknown_us 'time charged to pods whose use is not known, us',
    COMMENT COLUMN unallocated_us 'idle that nobody held, us',
    COMMENT COLUMN host_us 'time of processes in no pod, us',
    COMMENT COLUMN unattributed_us 'time of processes whose owner is not known, us',
    COMMENT COLUMN unobserved_us 'time of which nothing is known, us',
    COMMENT COLUMN memory_byte_ms 'device memory times time, byte milliseconds',
    COMMENT COLUMN energy_mj 'energy of the window, millijoule',
    COMMENT COLUMN flags 'what to know about the figures: unrequested (uses a GPU, asks for none), grant_missing (asks for one, the kubelet told of none), granted_elsewhere, grant_unknown, overcommitted, pod_unknown, first_reading, silent (no reading came), used_partial (more of it may have been used: some use has no owner), mig, slices_unknown, mps, ...';

ALTER TABLE requested_held_used
    COMMENT COLUMN cluster 'cluster of the node',
    COMMENT COLUMN namespace 'namespace of the pod',
    COMMENT COLUMN pod_name 'name of the pod; another pod may have it later: pod_uid tells them apart',
    COMMENT COLUMN pod_uid 'identity of the pod',
    COMMENT COLUMN owner_kind 'kind of the top owner of the pod, empty without one',
    COMMENT COLUMN owner_name 'name of the top owner',
    COMMENT COLUMN first_window 'start of its first window, UTC',
    COMMENT COLUMN last_window_end 'end of its last window, UTC',
    COMMENT COLUMN gpus 'how many GPUs',
    COMMENT COLUMN requested_s 'GPU-seconds that the pod spec asks for, a MIG instance counting by its slices, as in all columns here; null: not known',
    COMMENT COLUMN held_s 'GPU-seconds granted by the scheduler; null: not known',
    COMMENT COLUMN used_s 'GPU-seconds with its kernels running, an estimate; null: not known',
    COMMENT COLUMN used_plus_minus_s 'one standard deviation of used_s',
    COMMENT COLUMN charged_s 'GPU-seconds used plus the part of the idle time',
    COMMENT COLUMN hot_idle_s 'GPU-seconds of charged idle with a context open',
    COMMENT COLUMN used_per_held 'used / held, where both are known',
    COMMENT COLUMN used_per_requested 'used / requested, where both are known',
    COMMENT COLUMN held_per_requested 'held / requested, where both are known',
    COMMENT COLUMN held_coverage 'part of the time in which held is known, 0 to 1',
    COMMENT COLUMN used_coverage 'part of the time in which used is known, 0 to 1',
    COMMENT COLUMN basis 'how used was obtained, the weakest: accounting, sampled, gpm, mps_split, equal_split, allocation (held time, no use known)',
    COMMENT COLUMN flags 'what to know about the figures: unrequested (uses a GPU, asks for none), grant_missing (asks for one, the kubelet told of none), granted_elsewhere, grant_unknown, overcommitted, pod_unknown, first_reading, silent (no reading came), used_partial (more of it may have been used: some use has no owner), mig, slices_unknown, mps, ...';

ALTER TABLE usage_provisional
    COMMENT COLUMN provisional 'always true: these figures may still change and are never billed',
    COMMENT COLUMN parent_uuid 'GPU that the instance or the free slices are a part of; a GPU is its own',
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
