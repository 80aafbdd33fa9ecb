-- Views that must be empty, and where the sink is.

-- Every broken law as a row: which law, where, what was expected and what was found. Must be empty.
CREATE OR REPLACE VIEW conservation_violations AS
WITH windows AS (
    SELECT cluster, node, gpu_uuid, window_start_us, argMax(lifetime_us, revision) AS lifetime, argMax(observed_us, revision) AS observed,
           max(window_end_us) AS window_end, sum(charged_us) AS charged,
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
FROM windows WHERE lifetime < 0 OR lifetime > window_end - window_start_us OR observed < 0 OR observed > lifetime
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

-- Copies of one key whose content differs, as long as both are on disk: merges keep the first. Must be empty.
CREATE OR REPLACE VIEW differing_copies AS
SELECT cluster, node, gpu_uuid, holder, window_start_us, revision, count() AS copies,
       groupArray((out_topic, out_partition, out_offset)) AS origins
FROM usage_ledger
GROUP BY cluster, node, gpu_uuid, holder, window_start_us, revision
HAVING uniqExact((gpu_model, window_end_us, holder_kind, namespace, pod_name, pod_uid, container_name,
                  owner_kind, owner_name, requested_us, held_us, used_us, used_variance_us2, resident_us,
                  charged_us, hot_idle_us, memory_byte_ms, energy_mj, observed_us, memory_observed_us,
                  energy_observed_us, lifetime_us, weight_slices, weight_total, basis, flags, d_held_us,
                  d_used_us, d_charged_us, d_memory_byte_ms, d_energy_mj, meter_version)) > 1
COMMENT 'Copies of a row that differ and are not merged yet; must be empty';

-- Up to where each partition of gpu-usage is in the ledger; compare with the end of the topic to see the lag.
CREATE OR REPLACE VIEW ledger_progress AS
SELECT topic, topic_id, partition, max(next_offset) AS next_offset, max(written_at) AS written_at
FROM sink_progress
GROUP BY topic, topic_id, partition
COMMENT 'Next offset of each partition of gpu-usage that the ledger does not have yet';
