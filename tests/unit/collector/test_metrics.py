"""What the agent says about itself."""

from prometheus_client import CollectorRegistry, generate_latest

from collector.metrics import AgentMetrics


def test_metrics_are_what_was_counted() -> None:
    """Every number appears in the exposition under its name, with its unit and labels."""
    counts = {"acknowledged": 5, "dropped": 2, "gaps": 1, "faults": 4, "syncs": 6, "held_bytes": 77, "on_disk": True}
    metrics = AgentMetrics(lambda name: int(counts.get(name, 0)))
    metrics.readings, metrics.reading_us, metrics.refused_rows = 2, 3_000_000, 98
    metrics.answers["lists", 4] += 3
    metrics.grants_known = True
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    for line in (
        "gpumeter_reading_seconds_count 2.0", "gpumeter_reading_seconds_sum 3.0", "gpumeter_refused_rows_total 98.0",
        'gpumeter_driver_answers_total{call="lists",code="4"} 3.0', 'gpumeter_messages_total{outcome="dropped"} 2.0',
        "gpumeter_grants_known 1.0", "gpumeter_driver_ready 0.0", "gpumeter_spool_gaps_total 1.0",
        "gpumeter_spool_faults_total 4.0", "gpumeter_spool_syncs_total 6.0", "gpumeter_spool_bytes 77.0",
        "gpumeter_spool_on_disk 1.0",
    ):  # fmt: skip
        assert line in text.splitlines()
