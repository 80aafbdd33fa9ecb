"""Why there is no broker: the one error of this folder, for the command line to show as exit code 3."""


class BrokerError(RuntimeError):
    """Kafka cannot be fetched or started here; says what was tried, what came back and what a person can do."""
