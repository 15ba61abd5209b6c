"""Answer the requests that come most, one decision or one reward, from socket to socket.

Where all is as it should be they need no task, no request object and no response object: the body is checked
and the decision drawn where its last byte arrives, and the engine's answer is written to the connection. That
is 1.7 times as many requests for the same processor time (docs/service.md). Everything else (a bandit that is
not loaded, a decision that takes long, a request that must be refused) goes to the application, so that
nothing is refused here; `tests/serve/test_fast_path.py` compares the two ways.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from linmed.serve.bandit import Bandit
from linmed.serve.connections import Connection
from linmed.serve.decisions import view
from linmed.serve.engine import Decide, Reward
from linmed.serve.errors import INPUT, Refused
from linmed.serve.middleware import HEADERS, Middleware, Scope, header_lines, in_trouble, refusal
from linmed.serve.parsing import parse
from linmed.serve.schemas import PREFIX, DecideRequest, RewardRequest
from linmed.serve.server import Server

logger = logging.getLogger("linmed.serve")

LONGEST = 2**16
"""Bytes of a body that is waited for here; uvicorn reads no more before the application takes it."""
_START = f"{PREFIX}/".encode()
_ENDS = (b"/decide", b"/reward")
_ALWAYS = header_lines(HEADERS)
_GOOD = _ALWAYS + b"content-type: application/json\r\ncontent-length: %d\r\n"


class Reply:
    """Hold one request until it is answered.

    To the connection it is what uvicorn's cycle is for other requests, to the engine the future that it
    answers.
    """

    __slots__ = (
        "body", "connection", "disconnected", "keep_alive", "more_body", "name", "response_complete", "scope",
        "show", "started",
    )  # fmt: skip
    response_started = False  # it is sent whole

    def __init__(self, connection: "FastConnection", scope: Scope, name: str, keep_alive: bool):
        self.connection, self.scope, self.name, self.keep_alive = connection, scope, name, keep_alive
        self.body, self.more_body = bytearray(), True
        self.response_complete = self.disconnected = False
        self.show: Callable[[Any], Any] | None = None
        self.started = 0.0

    @property
    def message_event(self) -> "Reply":
        """Return what nobody waits for: parts of the body."""
        return self

    def set(self) -> None:
        """Do nothing: nobody waits."""

    def done(self) -> bool:
        """Say that the engine's answer is wanted."""
        return False

    def set_result(self, answers: list[Any]) -> None:
        """Send the answer of what is now in the log."""
        content = to_json(self.show(answers[0]) if self.show else answers[0], inf_nan_mode="null")
        self.connection.answer(self, 200, _GOOD % len(content), content)

    def set_exception(self, error: Exception) -> None:
        """Send what the engine refuses, as the application would."""
        told = error if isinstance(error, Refused) else in_trouble(error)
        if told is None:
            logger.error("a request failed", exc_info=error)
        answer = refusal(told or Refused("failed", "internal error"))
        lines = _ALWAYS + header_lines(answer.raw_headers)
        self.connection.answer(self, answer.status_code, lines, bytes(answer.body))


class FastConnection(Connection):
    """Take `POST /v1/bandits/{name}/decide` and `…/reward`; the application has every other request."""

    def __init__(self, app: Middleware, server: Server, **given: Any):
        super().__init__(server.settings, **given)
        self.middleware, self.service = app, server
        self._held: Reply | None = None  # whose body is waited for

    def on_message_begin(self) -> None:
        """Note the first byte of a request; ASGI's description of it is made when it is needed."""
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._begin_head()

    def on_headers_complete(self) -> None:
        """Choose the way of a request by its head."""
        self._end_head()
        self._held = self._taken() if self.cycle is None or self.cycle.response_complete else None
        if self._held is None:
            self._to_application()
        else:
            self.cycle = self._answering = self._held  # type: ignore[assignment]

    def on_message_complete(self) -> None:
        """Answer a request that is complete, or hand it to the application."""
        super().on_message_complete()
        if self._held is not None:
            if self._granted(self._held):
                self._held = None
            else:
                self._to_application()

    def connection_lost(self, exc: Exception | None) -> None:
        """Have the application count a caller who left in the middle of a body."""
        if self._held is not None:
            self._to_application()
        super().connection_lost(exc)

    def _taken(self) -> Reply | None:
        """Make a `Reply` that waits for the body; None where the application is to have the request."""
        url, fields = self.url, dict(self.headers)
        length = fields.get(b"content-length", b"")
        if url[-7:] not in _ENDS or not url.startswith(_START) or self.parser.get_method() != b"POST":
            return None
        if not url.isascii() or not length.isdigit() or int(length) > LONGEST or b"expect" in fields:
            return None
        path = url.decode()
        name = path[len(_START) : -7]
        if name not in self.service.memory.by_name or self.parser.should_upgrade() or self.flow.write_paused:
            return None
        scope: Scope = {"method": "POST", "path": path, "headers": self.headers, "client": self.client}
        try:
            self.middleware.check(scope, fields)
        except Refused:
            return None
        if not scope["caller"].may("decide", name):
            return None
        kept = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        return Reply(self, scope, name, kept)

    def _to_application(self) -> None:
        """Hand the request to the application, with what was learned of it until now."""
        held, self._held = self._held, None
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super(Connection, self).on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        if held is None:
            self._start_request()
            return
        self.scope.update(held.scope)  # type: ignore[typeddict-item]
        self.cycle = None  # type: ignore[assignment]
        self._start_request()
        self.cycle.body, self.cycle.more_body = held.body, held.more_body
        self.cycle.keep_alive = held.keep_alive
        self.cycle.message_event.set()

    def _granted(self, reply: Reply) -> bool:
        """Have a whole request answered, now or by the engine; False where it cannot be."""
        bandit = self.service.memory.by_name.get(reply.name)
        reply.started = time.perf_counter()
        take = self._decide if reply.scope["path"].endswith("/decide") else self._reward
        try:
            return bandit is not None and take(bandit, reply)
        except (Refused, ValidationError, *INPUT):
            return False

    def _decide(self, bandit: Bandit, reply: Reply) -> bool:
        row = self.service.scheduler.at_once(bandit, parse(reply.body, DecideRequest))
        if row is None:
            return False
        reply.show = view
        self.service.hand_in(Decide([row], reply))
        return True

    def _reward(self, bandit: Bandit, reply: Reply) -> bool:
        given = parse(reply.body, RewardRequest)
        bandit.check_reward(given.reward)
        self.service.hand_in(Reward(bandit.id, [given.given], reply))
        return True

    def answer(self, reply: Reply, status: int, lines: bytes, content: bytes) -> None:
        """Send status, header lines and body."""
        if not reply.disconnected and not self.transport.is_closing():
            always = header_lines(self.server_state.default_headers)
            end = b"\r\n" if reply.keep_alive else b"connection: close\r\n\r\n"
            self.transport.write(b"".join([STATUS_LINE[status], always, lines, end, content]))
            reply.response_complete = True
            if not reply.keep_alive:
                self.transport.close()
            self.on_response_complete()
        route = PREFIX + "/{name}" + reply.scope["path"][-7:]
        self.middleware.metrics.answered(route, status, time.perf_counter() - reply.started)
