"""Answer the requests that come most, one decision or one reward, from socket to socket.

Where all is as it should be they need no task, no request object and no response object: the body is checked
and the decision drawn where its last byte arrives, and the engine's answer is written to the connection. That
is 2.3 times as many requests for the same processor time. Everything else (a bandit that is not loaded, a
decision that takes long, a request that must be refused) is handed to the application, so that nothing is
refused here; `tests/serve/test_fast_path.py` compares the two ways.
"""

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from linmed.serve.bandit import Bandit
from linmed.serve.decisions import view
from linmed.serve.engine import Decide, Reward
from linmed.serve.errors import INPUT, Refused
from linmed.serve.middleware import HEADERS, Middleware, Scope, in_trouble, refusal
from linmed.serve.schemas import PREFIX, DecideRequest, RewardRequest
from linmed.serve.server import Server
from linmed.validation import Floats

logger = logging.getLogger("linmed.serve")

LONGEST = 2**16
"""Bytes of a body that is waited for here; uvicorn reads no more before the application takes it."""
_START = f"{PREFIX}/".encode()
_ALWAYS = b"".join(name + b": " + value + b"\r\n" for name, value in HEADERS)
_GOOD = _ALWAYS + b"content-type: application/json\r\ncontent-length: %d\r\n"


class Reply:
    """Hold one request until it is answered.

    To the connection it is what uvicorn's cycle is for other requests, to the engine the future that it
    answers. `connection` has the method `answer`.
    """

    __slots__ = (
        "body", "connection", "disconnected", "keep_alive", "more_body", "response_complete", "scope", "show",
        "started", "taker",
    )  # fmt: skip
    response_started = False  # it is sent whole

    def __init__(self, connection: Any, taker: "FastPath", scope: Scope):
        self.connection, self.taker, self.scope = connection, taker, scope
        self.body, self.more_body, self.keep_alive = bytearray(), True, True
        self.response_complete = self.disconnected = False
        self.show: Callable[[Any], Any] | None = None
        self.started = 0.0

    @property
    def message_event(self) -> "Reply":
        """Nothing waits for parts of the body."""
        return self

    def set(self) -> None:
        """Do nothing: nobody waits."""

    def done(self) -> bool:
        """Say that the engine's answer is wanted."""
        return False

    def set_result(self, answers: list[Any]) -> None:
        """Send the answer of what is now in the log."""
        content = to_json(self.show(answers[0]) if self.show else answers[0], inf_nan_mode="null")
        self._send(200, _GOOD % len(content), content)

    def set_exception(self, error: Exception) -> None:
        """Send what the engine refuses, as the application would."""
        told = error if isinstance(error, Refused) else in_trouble(error)
        if told is None:
            logger.error("a request failed", exc_info=error)
        answer = refusal(told or Refused("failed", "internal error"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
        self._send(answer.status_code, _ALWAYS + lines, bytes(answer.body))

    def _send(self, status: int, lines: bytes, content: bytes) -> None:
        self.connection.answer(self, status, lines, content)
        route = PREFIX + "/{name}" + self.scope["path"][-7:]
        self.taker.middleware.metrics.answered(route, status, time.perf_counter() - self.started)


class FastPath:
    """Take `POST /v1/bandits/{name}/decide` and `…/reward` from the connections."""

    def __init__(self, server: Server, middleware: Middleware):
        self.server, self.middleware = server, middleware
        self._kinds: dict[bytes, Callable[[Bandit, Reply], bool]] = {
            b"/decide": self._decide,
            b"/reward": self._reward,
        }

    def take(
        self, connection: Any, method: bytes, url: bytes, headers: list[tuple[bytes, bytes]]
    ) -> Reply | None:
        """Return a `Reply` that waits for the body, or None where the application is to have the request."""
        if method != b"POST" or url[-7:] not in self._kinds or not url.startswith(_START):
            return None
        fields = dict(headers)
        length = fields.get(b"content-length", b"")
        if not url.isascii() or not length.isdigit() or int(length) > LONGEST or b"expect" in fields:
            return None
        path = url.decode()
        name = path[len(_START) : -7]
        if name not in self.server.memory.by_name:
            return None
        scope = {"method": "POST", "path": path, "headers": headers, "client": connection.client}
        try:
            self.middleware.check(scope, fields)
        except Refused:
            return None
        return Reply(connection, self, scope) if scope["caller"].may("decide", name) else None

    def grant(self, reply: Reply) -> bool:
        """Have a whole request answered, now or by the engine; False hands it to the application."""
        path = reply.scope["path"]
        bandit = self.server.memory.by_name.get(path[len(_START) : -7])
        reply.started = time.perf_counter()
        try:
            return bandit is not None and self._kinds[path[-7:].encode()](bandit, reply)
        except (Refused, ValidationError, *INPUT):
            return False

    def _decide(self, bandit: Bandit, reply: Reply) -> bool:
        row = self.server.scheduler.at_once(bandit, decide_request(reply.body))
        if row is None:
            return False
        reply.show = view
        self.server.hand_in(Decide([row], reply))
        return True

    def _reward(self, bandit: Bandit, reply: Reply) -> bool:
        given = RewardRequest.model_validate_json(reply.body)
        bandit.check_reward(given.reward)
        self.server.hand_in(Reward(bandit.id, [(given.decision_id, given.reward)], reply))
        return True


class Arms(NamedTuple):
    """A request with nothing but arms, which leaves a model nothing to check."""

    arms: Floats
    arm_ids: None = None
    context: None = None
    key: None = None


def decide_request(body: bytes | bytearray) -> DecideRequest:
    """Read a request, its arms straight into an array; ValueError where they are not so plain."""
    content = from_json(body, allow_inf_nan=False)
    if not isinstance(content, dict) or not isinstance(content.get("arms"), list):
        return DecideRequest.model_validate_json(body)
    arms = np.array(content.pop("arms"))
    if arms.dtype.kind not in "fi" or b"true" in body or b"false" in body:  # which NumPy takes for numbers
        raise ValueError("arms: not all of it are numbers")
    if not content:
        return cast("DecideRequest", Arms(arms))
    request = DecideRequest.model_validate(content)
    request.arms = arms  # type: ignore[assignment]  # whatever reads it takes both
    return request
