"""Check every request before its route (who asks, how much, how often), and write every refusal.

A token is shown once; the database has its hash, compared in constant time."""

import asyncio
import functools
import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

import sqlalchemy as sa
from pydantic_core import to_json
from starlette.responses import Response

from linmed.serve.database import Database, cause, now, tokens, trouble
from linmed.serve.errors import Kind, Refused, stopping
from linmed.serve.metrics import Metrics
from linmed.serve.schemas import NAME
from linmed.serve.settings import Settings

logger = logging.getLogger("linmed.serve")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

TAKE_BODIES = ("POST", "PATCH", "PUT")
EVERYTHING = frozenset({"read", "decide", "admin"})
_LOCAL = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]*)?", re.IGNORECASE)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
]


STATUS: dict[Kind, int] = {
    "malformed": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "unknown": 404,
    "too slow": 408,
    "conflict": 409,
    "too large": 413,
    "wrong type": 415,
    "invalid": 422,
    "overloaded": 429,
    "head too large": 431,
    "left": 499,  # as nginx counts callers who did not wait for their answer
    "failed": 500,
    "unavailable": 503,
}


# Tokens

LONGEST = 200
"""Characters of a label."""
SCOPES = ("read", "decide", "admin")
_FORM = re.compile(r"lm_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class Caller:
    """Who asks: what they may do, and with which bandit (None: all)."""

    id: str
    scopes: frozenset[str]
    bandit: str | None = None

    def may(self, scope: str, bandit: str | None) -> bool:
        """Say what a caller may do: admin everything, but each only with its bandit."""
        return (scope in self.scopes or "admin" in self.scopes) and self.bandit in (None, bandit)


class Tokens:
    """The tokens of a database, as of the last `refresh`."""

    def __init__(self, database: Database):
        self.database = database
        self._known: dict[str, tuple[bytes, Caller]] = {}
        self._made = 0

    def __len__(self) -> int:
        """Count all that were ever made: where all are revoked the server lets nobody in, not everybody."""
        return self._made

    def refresh(self) -> None:
        """Read the tokens again."""
        with self.database.reader.begin() as connection:
            rows = connection.execute(sa.select(tokens)).all()
        self._known = {
            row.id: (row.hash, Caller(row.id, frozenset(row.scopes.split()), row.bandit))
            for row in rows
            if row.revoked is None
        }
        self._made = len(rows)

    def identify(self, token: str) -> Caller | None:
        """Find the caller whose token this is."""
        match = _FORM.fullmatch(token)
        stored, caller = self._known.get(match[1] if match else "", (b"\0" * 32, None))
        right = hmac.compare_digest(stored, _hash(match[2] if match else ""))
        return caller if right else None


def create(database: Database, scopes: list[str], bandit: str | None = None, label: str = "") -> str:
    """A new token: what is returned is stored nowhere."""
    wrong = [scope for scope in scopes if scope not in SCOPES]
    if wrong or not scopes:
        raise ValueError(f"scopes must be some of {', '.join(SCOPES)}, got {', '.join(wrong) or 'none'}")
    if not label.isprintable() or len(label) > LONGEST:
        raise ValueError(
            f"label must be one line of at most {LONGEST} printable characters, got {label[:80]!r}"
        )
    if bandit is not None and re.fullmatch(NAME, bandit) is None:
        raise ValueError(
            f"bandit must be a bandit's name, got {bandit[:80]!r}: no bandit could have that one"
        )
    identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    values = {"id": identifier, "hash": _hash(secret), "scopes": " ".join(scopes), "created": now()}
    with database.writer.begin() as connection:
        connection.execute(sa.insert(tokens).values(**values, bandit=bandit, label=label))
    return f"lm_{identifier}_{secret}"


def revoke(database: Database, identifier: str) -> bool:
    """Let nobody in any more with the token of this id (between its underscores).

    Servers take notice within their staleness. The row stays, as the sign that this database is closed, but
    without the hash.
    """
    when = sa.func.coalesce(tokens.c.revoked, now())
    end = sa.update(tokens).where(tokens.c.id == identifier).values(revoked=when, hash=b"")
    with database.writer.begin() as connection:
        return connection.execute(end).rowcount > 0


def listing(database: Database) -> list[dict[str, object]]:
    """Every token but its secret."""
    shown = tokens.c["id", "scopes", "bandit", "label", "created", "revoked"]
    query = sa.select(*shown).order_by(tokens.c.created)
    with database.reader.begin() as connection:
        return [row._asdict() for row in connection.execute(query)]


def _hash(secret: str) -> bytes:
    """One round is enough: the secret has 256 random bits, not a human's."""
    return hashlib.sha256(secret.encode()).digest()


# Requests


class Rates:
    """Fill a bucket for each caller at `rate` a second and holds two seconds' worth."""

    def __init__(self, rate: float):
        self.rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}  # (content, when)

    def take(self, caller: str) -> bool:
        """Say whether one more request is within the rate."""
        if self.rate == 0.0:
            return True
        now, full = time.monotonic(), max(2.0 * self.rate, 1.0)
        content, then = self._buckets.get(caller, (full, now))
        content = min(full, content + (now - then) * self.rate)
        if len(self._buckets) > 10_000:  # a full bucket is as good as none
            self._buckets = {c: b for c, b in self._buckets.items() if b[0] + (now - b[1]) * self.rate < full}
        granted = content >= 1.0
        self._buckets[caller] = (content - granted, now)
        return granted


class Middleware:
    """Let requests through to `app`, or refuse them; `open` are the paths that show nobody's data."""

    def __init__(self, app: Any, settings: Settings, tokens: Tokens, metrics: Metrics, open: frozenset[str]):
        self.open, self.app, self.settings, self.tokens, self.metrics = open, app, settings, tokens, metrics
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
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            if "caller" not in scope:  # which the fast path has found out before it handed this over
                self._count_refused(scope)
            if not scope["content_length"]:
                receive = self._counted(receive)
            await self.app(scope, receive, watched)
        except Refused as error:
            await refusal(error)(scope, receive, watched)
        except asyncio.CancelledError:  # the server ends and has waited long enough
            if not status:
                await refusal(stopping())(scope, receive, watched)
        except Exception as error:
            told = in_trouble(error)
            if told is None:
                logger.exception("a request failed", extra={"path": scope["path"]})
            if not status:
                await refusal(told or Refused("failed", "internal error"))(scope, receive, watched)
        finally:
            self.metrics.answered(scope.get("route", "none"), status, time.perf_counter() - started)

    def _count_refused(self, scope: Scope) -> None:
        try:
            self.check(scope, dict(scope["headers"]))
        except Refused as error:
            if error.kind == "overloaded":
                self.metrics.refused.labels("rate").inc()
            raise

    def check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Find out who asks (`scope["caller"]`), and refuse what no route needs to see."""
        closed = len(self.tokens) > 0 or not self.settings.loopback
        scope["content_length"] = length = headers.get(b"content-length")
        if not closed and not _LOCAL.fullmatch(headers.get(b"host", b"")):
            # A page elsewhere may point its own name at this machine; it cannot change the Host header.
            raise Refused("forbidden", "Host: a server without tokens answers only to localhost")
        if "\ufffd" in scope["path"] and not _is_text(scope.get("raw_path", b"")):
            # The web server has put U+FFFD for what it could not read: different ids would become one.
            raise Refused("malformed", "the path is not UTF-8")
        address = (scope.get("client") or ("unknown",))[0]
        caller = _anybody(address)
        if closed and scope["path"] not in self.open:
            caller = self._identified(headers.get(b"authorization", b"").decode("latin-1"), address)
        if not self.rates.take(caller.id):
            text = f"more than {self.settings.rate:g} requests a second: slow down"
            raise Refused("overloaded", text, retry_after=1)
        if length is not None and (not length.isdigit() or int(length) > self.settings.max_body):
            raise self._too_large()
        if scope["method"] in TAKE_BODIES and headers.get(b"content-type") != b"application/json":
            kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise Refused("wrong type", f"Content-Type must be application/json, got {kind[:100]!r}")
        scope["caller"] = caller  # last: whoever has one has passed

    def _identified(self, authorization: str, address: str) -> Caller:
        """Find the caller whose token it is."""
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
        """Count a body whose length was not announced."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.settings.max_body:
                raise self._too_large()
            return message

        return counted


@functools.lru_cache(maxsize=1024)
def _anybody(address: str) -> Caller:
    """Make the caller of a server without tokens."""
    return Caller(address, EVERYTHING)


def _is_text(raw_path: bytes) -> bool:
    try:
        unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return False
    return True


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write headers as HTTP/1.1 has them."""
    return b"".join(name + b": " + value + b"\r\n" for name, value in headers)


def refusal(error: Refused) -> Response:
    """Write the reason, the field if there is one, and when to try again."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.kind == "unauthorised":
        headers["WWW-Authenticate"] = "Bearer"
    return error_response(STATUS[error.kind], error.message, error.field, headers)


def error_response(status: int, message: str, field: str | None, headers: dict[str, str]) -> Response:
    """Write an answer that is not 2xx."""
    body = json.dumps({"error": {"status": status, "message": message, "field": field}})
    return Response(body, status, headers, "application/json")


def in_trouble(error: Exception) -> Refused | None:
    """Say what to answer where the database is the reason: it comes back, and so should the caller."""
    if not trouble(error):
        return None
    logger.warning("the database does not answer", extra={"error": cause(error)})
    return Refused("unavailable", "the database does not answer: try again", retry_after=1)


class Json(Response):
    """Answer in JSON that was validated by its making. What is not finite becomes null."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200):
        super().__init__(to_json(content, inf_nan_mode="null"), status_code)


def allow(caller: Caller, scope: str, bandit: str | None = None) -> None:
    """Refuse a caller whose token does not reach so far."""
    if not caller.may(scope, bandit):
        what = "" if bandit is None else f" for bandit {bandit!r}"
        raise Refused("forbidden", f"this token does not have the scope {scope!r}{what}")
