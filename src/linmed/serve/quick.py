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

from linmed.checks import Floats
from linmed.serve.answers import in_trouble, refusal
from linmed.serve.bandit import Bandit
from linmed.serve.bodies import DecideRequest, RewardRequest
from linmed.serve.decisions import view
from linmed.serve.engine import Decide, Reward
from linmed.serve.errors import INPUT, Refused
from linmed.serve.gate import HEADERS, Gate, Scope
from linmed.serve.routes import PREFIX
from linmed.serve.server import Server

logger = logging.getLogger("linmed.serve")

LONGEST = 2**16
"""Bytes of a body that is worth waiting for here; uvicorn reads no more before somebody takes it."""

Write = Callable[[int, bytes, bytes], None]
"""Sends an answer: its status, its header lines and its body."""


class Reply:
    """What the engine answers, in place of a future: written at once to whoever asked."""

    __slots__ = ("quick", "route", "show", "started", "write")

    def __init__(self, quick: "Quick", route: str, show: Callable[[Any], Any], write: Write):
        self.quick, self.route, self.show, self.write = quick, route, show, write
        self.started = time.perf_counter()

    def done(self) -> bool:
        """Never before its answer."""
        return False

    def set_result(self, answers: list[Any]) -> None:
        """It is in the log."""
        content = to_json(self.show(answers[0]), inf_nan_mode="null")
        self._send(200, b"content-type: application/json\r\ncontent-length: %d\r\n" % len(content), content)

    def set_exception(self, error: Exception) -> None:
        """It is not."""
        told = error if isinstance(error, Refused) else in_trouble(error)
        if told is None:
            logger.error("a request failed", exc_info=error)
        answer = refusal(told or Refused("failed", "internal error"))
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
        self._send(answer.status_code, lines, bytes(answer.body))

    def _send(self, status: int, lines: bytes, content: bytes) -> None:
        self.write(status, lines + _ALWAYS, content)
        self.quick.gate.metrics.answered(self.route, status, time.perf_counter() - self.started)


_ALWAYS = b"".join(name + b": " + value + b"\r\n" for name, value in HEADERS)


class Quick:
    """`POST /v1/bandits/{name}/decide` and `…/reward`."""

    def __init__(self, server: Server, gate: Gate):
        self.server, self.gate = server, gate
        self._kinds: dict[str, Callable[[Bandit, bytes, Write], bool]] = {
            "decide": self._decide,
            "reward": self._reward,
        }

    def takes(self, scope: Scope) -> bool:
        """Whether this is such a request, and its body short; before that has arrived."""
        if scope["method"] != "POST" or scope["path"].rpartition("/")[2] not in self._kinds:
            return False
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        return length.isdigit() and int(length) <= LONGEST and b"expect" not in headers

    def grant(self, scope: Scope, body: bytes, write: Write) -> bool:
        """Have it answered, now or by the engine; False where it must go the way of all requests."""
        start, _, last = scope["path"].rpartition("/")
        bandit = self.server.memory.by_name.get(start.removeprefix(f"{PREFIX}/"))
        if bandit is None or not start.startswith(PREFIX):
            return False
        try:
            self.gate.check(scope)
        except Refused as refused:
            scope["refused"] = refused
            return False
        try:
            return scope["caller"].may("decide", bandit.name) and self._kinds[last](bandit, body, write)
        except (Refused, ValidationError, *INPUT):
            return False

    def _decide(self, bandit: Bandit, body: bytes, write: Write) -> bool:
        rows = self.server.draw_at_once(bandit, decide_request(body))
        if rows is None:
            return False
        self._hand_in(Decide(rows, Reply(self, _DECIDE, view, write)))
        return True

    def _reward(self, bandit: Bandit, body: bytes, write: Write) -> bool:
        given = RewardRequest.model_validate_json(body)
        bandit.check_reward(given.reward)
        reply = Reply(self, _REWARD, lambda answer: answer, write)
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


def decide_request(body: bytes) -> DecideRequest:
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


_DECIDE, _REWARD = f"{PREFIX}/{{name}}/decide", f"{PREFIX}/{{name}}/reward"
