"""The requests that come most, from socket to socket: one decision, or one reward.

Where all is as it should be they need no task, no request object and no response object: the body is checked
and the decision drawn where its last byte arrives, and the engine's answer is written straight to the
connection. Whatever is not so (a bandit that is not loaded, a dear draw, a request that must be refused)
goes the way of all requests, which therefore is the only one that refuses.
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
from linmed.serve.metrics import Metrics
from linmed.serve.middleware import HEADERS, Gate, Scope, in_trouble, refusal
from linmed.serve.schemas import PREFIX, DecideRequest, RewardRequest
from linmed.serve.server import Server
from linmed.validation import Floats

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


LONGEST = 2**16
"""Bytes of a body that is worth waiting for here; uvicorn reads no more before somebody takes it."""
_START = f"{PREFIX}/".encode()


class Quick:
    """`POST /v1/bandits/{name}/decide` and `…/reward`."""

    def __init__(self, server: Server, gate: Gate):
        self.server, self.gate = server, gate
        self._kinds: dict[bytes, tuple[str, Callable[[Bandit, Reply], bool]]] = {
            b"/decide": (f"{PREFIX}/{{name}}/decide", self._decide),
            b"/reward": (f"{PREFIX}/{{name}}/reward", self._reward),
        }

    def take(
        self, connection: Any, method: bytes, url: bytes, headers: list[tuple[bytes, bytes]]
    ) -> Reply | None:
        """Such a request of a bandit at hand, if its body will be short; before that has arrived.

        One that the gate or its token refuses is not to wait for its body, as no other does (`granted`).
        """
        kind = self._kinds.get(url[-7:])
        if kind is None or method != b"POST" or not url.startswith(_START) or not url.isascii():
            return None
        fields = dict(headers)
        length = fields.get(b"content-length", b"")
        if not length.isdigit() or int(length) > LONGEST or b"expect" in fields:
            return None
        path = url.decode()
        name = path[len(_START) : -7]
        if name not in self.server.memory.by_name:
            return None
        scope = {"method": "POST", "path": path, "headers": headers, "client": connection.client}
        reply = Reply(connection, self.gate.metrics, kind[0], scope)
        try:
            self.gate.check(scope, fields)
            reply.granted = scope["caller"].may("decide", name)
        except Refused as refused:
            scope["refused"] = refused
        return reply

    def grant(self, reply: Reply) -> bool:
        """Have it answered, now or by the engine; False where it must go the way of all requests."""
        path = reply.scope["path"]
        bandit = self.server.memory.by_name.get(path[len(_START) : -7])
        if bandit is None:
            return False
        reply.started = time.perf_counter()
        _, grant = self._kinds[path[-7:].encode()]
        try:
            return grant(bandit, reply)
        except (Refused, ValidationError, *INPUT):
            return False

    def _decide(self, bandit: Bandit, reply: Reply) -> bool:
        row = self.server.scheduler.at_once(bandit, decide_request(reply.body))
        if row is None:
            return False
        reply.show = view
        self._hand_in(Decide([row], reply))
        return True

    def _reward(self, bandit: Bandit, reply: Reply) -> bool:
        given = RewardRequest.model_validate_json(reply.body)
        bandit.check_reward(given.reward)
        self._hand_in(Reward(bandit.id, [(given.decision_id, given.reward)], reply))
        return True

    def _hand_in(self, job: Decide | Reward) -> None:
        try:
            self.server.hand_in(job)
        except Refused as refused:
            if refused.kind == "overloaded":
                self.gate.metrics.refused.labels("load").inc()
            job.answer.set_exception(refused)


class Arms(NamedTuple):
    """A request with nothing but arms, which leaves a model nothing to check."""

    arms: Floats
    arm_ids: None = None
    context: None = None
    key: None = None


def decide_request(body: bytes | bytearray) -> DecideRequest:
    """The request, its arms straight to an array; ValueError where they are not so plain."""
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
