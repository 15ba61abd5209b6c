"""What every request passes before its route: who asks, how much, how often; and what no answer may show."""

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from linmed.serve.answers import refusal
from linmed.serve.errors import Refused
from linmed.serve.metrics import Metrics
from linmed.serve.settings import Settings
from linmed.serve.tokens import Caller, Tokens

logger = logging.getLogger("linmed.serve")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

OPEN = frozenset({"/", "/page.js", "/page.css", "/favicon.svg", "/healthz", "/readyz", "/v1/openapi.json"})
"""Shows nothing of anyone's data."""
EVERYTHING = frozenset({"read", "decide", "admin"})
_LOCAL = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
]


class Rates:
    """A bucket for each caller that fills at `rate` a second and holds two seconds' worth."""

    def __init__(self, rate: float):
        self.rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}  # (content, when)

    def take(self, caller: str) -> bool:
        """Whether one more request is within the rate."""
        if self.rate == 0.0:
            return True
        now, full = time.monotonic(), max(2.0 * self.rate, 1.0)
        content, then = self._buckets.get(caller, (full, now))
        content = min(full, content + (now - then) * self.rate)
        if len(self._buckets) > 10_000:  # a full bucket is as good as none
            self._buckets = {c: b for c, b in self._buckets.items() if b[0] + (now - b[1]) * self.rate < full}
        self._buckets[caller] = (max(content - 1.0, 0.0), now)
        return content >= 1.0


class Gate:
    """ASGI middleware."""

    def __init__(self, app: Any, settings: Settings, tokens: Tokens, metrics: Metrics):
        self.app, self.settings, self.tokens, self.metrics = app, settings, tokens, metrics
        self.rates = Rates(settings.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or answer at once."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            self._check(scope)
            if not scope["content_length"]:
                receive = self._counted(receive)
            await self.app(scope, receive, watched)
        except Refused as error:
            await refusal(error)(scope, receive, watched)
        except Exception:
            logger.exception("a request failed", extra={"path": scope["path"]})
            if not status:
                await refusal(Refused("failed", "internal error"))(scope, receive, watched)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            self.metrics.answered(route, status, time.perf_counter() - started)

    def _check(self, scope: Scope) -> None:
        """Find out who asks (`scope["caller"]`), and refuse what no route needs to see."""
        headers = dict(scope["headers"])
        closed = len(self.tokens) > 0 or not self.settings.loopback
        scope["content_length"] = length = headers.get(b"content-length")
        if not closed and headers.get(b"host", b"").rsplit(b":", 1)[0] not in _LOCAL:
            # A page elsewhere may point its own name at this machine; it cannot change the Host header.
            raise Refused("forbidden", "Host: a server without tokens answers only to localhost")
        address = (scope.get("client") or ("unknown",))[0]
        caller = Caller(address, EVERYTHING)
        if closed and scope["path"] not in OPEN:
            caller = self._identified(headers.get(b"authorization", b"").decode("latin-1"), address)
        scope["caller"] = caller
        if not self.rates.take(caller.id):
            self.metrics.refused.labels("rate").inc()
            text = f"more than {self.settings.rate:g} requests a second: slow down"
            raise Refused("overloaded", text, retry_after=1)
        if length is not None and (not length.isdigit() or int(length) > self.settings.max_body):
            raise self._too_large()
        if scope["method"] in ("POST", "PATCH", "PUT"):
            kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Refused("wrong type", f"Content-Type must be application/json, got {kind[:100]!r}")

    def _identified(self, authorization: str, address: str) -> Caller:
        """Whose token it is."""
        kind, _, token = authorization.partition(" ")
        found = self.tokens.identify(token.strip()) if kind.lower() == "bearer" else None
        if found is not None:
            return found
        if not self.rates.take(address):
            raise Refused("overloaded", "too many requests: slow down", retry_after=1)
        text = "Authorization: a valid token is needed, as in 'Authorization: Bearer lm_…'"
        raise Refused("unauthorised", text)

    def _too_large(self) -> Refused:
        return Refused("too large", f"the request's body may have at most {self.settings.max_body} bytes")

    def _counted(self, receive: Receive) -> Receive:
        """For a body whose length was not announced."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.settings.max_body:
                raise self._too_large()
            return message

        return counted
