"""Log lines of the jobs: JSON, one a line, to stderr. The only importer of structlog.

Knows nothing of what is logged. What happened to a record is a row or a dead letter, never only a line here.
"""

import logging
import sys

import structlog

from .clock import monotonic_s

_REPEAT_S = 30.0


class _Seldom(logging.Filter):
    """Lets a library's line pass once in 30 s: while a broker is away aiokafka writes 50 a second."""

    def __init__(self) -> None:
        super().__init__()
        self._seen_s: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key, now_s = (record.name, str(record.msg)[:60]), monotonic_s()
        if record.name.startswith("gpumeter") or now_s - self._seen_s.get(key, -_REPEAT_S) >= _REPEAT_S:
            self._seen_s[key] = now_s
            return True
        return False


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
    handler.addFilter(_Seldom())
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
