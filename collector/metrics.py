"""What the node agent says about itself: the only importer of prometheus_client in this folder. Few, by design.

Counts what happened; decides nothing. Each agent has a registry of its own, so that tests do not share numbers.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, start_http_server

ADDRESS = "127.0.0.1"


class AgentMetrics:
    """Counters of one agent."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reading_seconds = Summary(
            "gpumeter_reading_seconds", "Duration of a reading, driver and /proc", registry=self.registry
        )
        self.answers = Counter(
            "gpumeter_driver_answers", "Calls that did not answer 0, by call and NVML code", ["call", "code"],
            registry=self.registry,
        )  # fmt: skip
        self.refused_rows = Counter(
            "gpumeter_refused_rows", "Rows of the driver that cannot be true", registry=self.registry
        )
        self.snapshots = Counter("gpumeter_snapshots", "Snapshots of who is who", registry=self.registry)
        self.messages = Gauge(
            "gpumeter_messages", "Messages by what became of them", ["outcome"], registry=self.registry
        )
        self.grants_known = Gauge(
            "gpumeter_grants_known", "1 where the kubelet answered last time", registry=self.registry
        )
        self.driver_ready = Gauge(
            "gpumeter_driver_ready", "1 where the driver answered last time", registry=self.registry
        )

    def serve(self, port: int) -> None:
        """Serves the metrics on 127.0.0.1; 0: not at all."""
        if port:
            start_http_server(port, ADDRESS, self.registry)
