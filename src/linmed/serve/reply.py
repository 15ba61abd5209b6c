"""One request on the short way (`quick`), from its head to its answer.

To the connection it is what uvicorn's cycle is for all others, to the engine the future that it answers.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from pydantic_core import to_json

from linmed.serve.answers import in_trouble, refusal
from linmed.serve.errors import Refused
from linmed.serve.gate import HEADERS, Scope
from linmed.serve.metrics import Metrics

logger = logging.getLogger("linmed.serve")

_ALWAYS = b"".join(name + b": " + value + b"\r\n" for name, value in HEADERS)
_GOOD = _ALWAYS + b"content-type: application/json\r\ncontent-length: %d\r\n"


class _Nobody:
    """Waits for no part of a body."""

    def set(self) -> None:
        pass


class Reply:
    """Answers what came on `connection`, which has the method `answer`."""

    __slots__ = (
        "body", "connection", "disconnected", "granted", "keep_alive", "metrics", "more_body",
        "response_complete", "route", "scope", "show", "started",
    )  # fmt: skip
    message_event = _Nobody()
    response_started = False  # it is sent whole

    def __init__(self, connection: Any, metrics: Metrics, route: str, scope: Scope):
        self.connection, self.metrics, self.route = connection, metrics, route
        self.scope = scope
        self.body, self.more_body = bytearray(), True
        self.granted = False  # to this caller
        self.keep_alive = True
        self.response_complete = self.disconnected = False
        self.show: Callable[[Any], Any] = _itself
        self.started = 0.0

    def done(self) -> bool:
        """Never before its answer."""
        return False

    def set_result(self, answers: list[Any]) -> None:
        """It is in the log."""
        content = to_json(self.show(answers[0]), inf_nan_mode="null")
        self._send(200, _GOOD % len(content), content)

    def set_exception(self, error: Exception) -> None:
        """It is not."""
        told = error if isinstance(error, Refused) else in_trouble(error)
        if told is None:
            logger.error("a request failed", exc_info=error)
        answer = refusal(told or Refused("failed", "internal error"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
        self._send(answer.status_code, _ALWAYS + lines, bytes(answer.body))

    def _send(self, status: int, lines: bytes, content: bytes) -> None:
        self.connection.answer(self, status, lines, content)
        self.metrics.answered(self.route, status, time.perf_counter() - self.started)


def _itself(answer: Any) -> Any:
    return answer
