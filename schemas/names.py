"""Names of the topics, as constants that cost nothing to import; what each topic is stands in schemas/topics/*.yaml.

Law: these names and the YAML catalogue are the same set (tests/schemas/test_topics.py).
"""

GPU_SAMPLES = "gpu-samples"
POD_MAPPINGS = "pod-mappings"
POD_EVENTS = "pod-events"
GPU_USAGE = "gpu-usage"
GPU_LIVE = "gpu-live"
DEAD_LETTERS = "dead-letters"
METER_PROGRESS = "meter-progress"
METER_SETTINGS = "meter-settings"

INPUT_TOPICS = (GPU_SAMPLES, POD_MAPPINGS, POD_EVENTS)
"""The three topics that are partitioned alike by (cluster, node)."""

ALL_TOPICS = (*INPUT_TOPICS, GPU_USAGE, GPU_LIVE, DEAD_LETTERS, METER_PROGRESS, METER_SETTINGS)
