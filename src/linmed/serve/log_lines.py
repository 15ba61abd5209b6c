"""Write the service's logs to stderr as JSON lines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "color_message"})  # which uvicorn adds for terminals


class Seldom(logging.Filter):
    """Lets the same warning through once a second: trouble repeats itself with every request."""

    def __init__(self) -> None:
        super().__init__()
        self._second, self._told = 0, set[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it."""
        message, second = record.getMessage(), int(record.created)
        if second != self._second:
            self._second, self._told = second, set()
        fresh = record.levelno < logging.WARNING or message not in self._told
        self._told.add(message)
        return fresh


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, and whatever was passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to_stderr(level: str) -> None:
    """Send the service's and the web server's logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(Seldom())
    for name in ("linmed", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
