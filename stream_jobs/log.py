"""Log lines of the jobs: JSON, one a line, to stderr. The only importer of structlog.

Knows nothing of what is logged. What happened to a record is a row or a dead letter, never only a line here.
"""

import logging
import sys

import structlog


def configure(level: int = logging.INFO) -> None:
    """Sends our lines and those of the libraries (warnings and above) to stderr as JSON."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processor=structlog.processors.JSONRenderer(),
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.WARNING)
    logging.getLogger("gpumeter").setLevel(level)


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Logger of a part of the jobs."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(f"gpumeter.{name}")
    return bound


def flush() -> None:
    """Writes out what handlers hold, before a process ends at once."""
    for handler in logging.root.handlers:
        handler.flush()
