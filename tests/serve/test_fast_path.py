"""Requests, each sent twice: as it comes, and with the shorter ways closed. The answers are the same.

The shorter ways are `fast_path` (one decision or reward without ASGI) and arms that become arrays without
pydantic (`schemas.Arms`). Behind each request comes another on the same connection, so that a disagreement
on where the first ends shows too.
"""

import random
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from linmed.serve import parsing
from linmed.serve.fast_path import FastConnection
from linmed.serve.middleware import Middleware

from .serving import ARMS, application, create, decide, reward
from .test_bad_input import DECIDE
from .test_protocol import BODY, HEAD, answer, connection, last_words
from .test_security import bearer, token_for

KIND = {"Content-Type": "application/json"}
NEXT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
GOOD = b'{"arms": [[1.0, 0.0], [0.6, 0.8]], "key": "K"}'
PAD = b" " * 70_000  # makes a body large
METHODS = [
    "POST", "post", "Post", "GET", "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO", "PRI",
]  # fmt: skip
NAMES = [
    b"b", b"B", b"%62", b"b%20", b"%20b", b"b ", b"b%00", b"b\0", b"b\x7f", b"b%2f", b"b%2Fx", b"b/", b"/b",
    b"./b", b"../bandits/b", b"b/.", b"b;x", b"b?", b"b?x=", b"b#", b"b%", b"b%6", b"b%zz", b"b%C3%A9",
    b"\xc3\xa9", b"b\xff", b"%ff", b"b+", b"x", b"", b"-b", b"b" * 65, b"b%EF%BF%BD", b"b\t", b'b"', b"b\\",
    b"b|", b"b{}", b"b[", b"b&c", b"b:c", b"b@c", b"b~", b"archived", b"%61rchived", b"b%3f", b"b%23",
]  # fmt: skip
TARGETS = [
    b"/v1/bandits/b/decide?", b"/v1/bandits/b/decide?x=1", b"/v1/bandits/b/decide?x=/decide",
    b"/v1/bandits/b?/decide", b"/v1/bandits/b#/decide", b"/v1/bandits/b/decide#x", b"/v1/bandits/b/decide/",
    b"//v1/bandits/b/decide", b"/v1//bandits/b/decide", b"/v1/bandits/decide", b"/V1/bandits/b/decide",
    b"/v1/bandits/b/Decide", b"/v1/bandits/b/%64ecide", b"/v1/bandits/b%2fdecide", b"%2fv1/bandits/b/decide",
    b"http://localhost/v1/bandits/b/decide", b"HTTP://evil/v1/bandits/b/decide", b"localhost:80", b"*",
    b"/v1/bandits/b/decide\x80", b"/v1/bandits/b/decisions/decide", b"/v1/bandits/b/items/x/reward",
    b"/v1/bandits/../bandits/b/decide", b"/v1/bandits/b/x/../decide", b"/v1/bandits/b/decide decide",
]  # fmt: skip
VERSIONS = ["1.0", "1.1", "0.9", "2.0", "1.2", "11", "1."]
HEADERS = [  # each with the others as they should be; one of the same name takes their place
    b"Host: LOCALHOST", b"Host: localhost:1", b"Host: evil", b"Host: [::1]:80", b"Host:", b"Host : localhost",
    b"Host: localhost\r\nHost: evil", b"Host: evil\r\nHost: localhost", b"Host: localhost, evil",
    b"Content-Type:", b"Content-Type: text/plain", b"Content-Type: application/json; charset=utf-8",
    b"Content-Type: APPLICATION/JSON;charset=utf-16", b"Content-Type: application/jsonx",
    b"Content-Type: application/json\r\nContent-Type: text/plain", b"Content-Type: \xffapplication/json",
    b"Content-Type: text/plain\r\nContent-Type: application/json", b"Content_Type: application/json",
    b"Content-Length: 0", b"Content-Length: -1", b"Content-Length: +46", b"Content-Length: 0x2e",
    b"Content-Length: 10", b"Content-Length: 0046", b"Content-Length: 46, 46", b"Content-Length:",
    b"Content-Length: 46\r\nContent-Length: 46", b"Content-Length: 99999999999999999999999",
    b"Content-Length: 5000000", b"Content-Length: 500", b"Content-Length: \xb2",
    b"Expect: 100-continue", b"Expect: 200-ok", b"Content-Encoding: gzip", b"Transfer-Encoding: identity",
    b"Transfer-Encoding: gzip", b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade",
    b"Connection: Upgrade\r\nUpgrade: h2c", b"Upgrade: websocket", b"Authorization: Bearer x",
    b"X-HTTP-Method-Override: DELETE", b"X-Forwarded-Host: evil", b"Origin: http://evil", b"X-\xff: a",
    b"X-A: \xff", b"X-A: a\0b", b" X-A: folded", b"X-A: a\r\n folded", b"X A: b", b": b", b"nocolon",
    b"X-A: " + b"a" * 31_000, b"X-A: " + b"a" * 33_000, b"Trailer: X", b"Cookie: a=b",
]  # fmt: skip
NUMBERS = [
    b"-0", b"-0.0", b"1", b"1E0", b"1e-400", b"1e400", b"1e12", b"1000000000001", b"9223372036854775807",
    b"9223372036854775808", b"18446744073709551616", b"1" + b"0" * 30, b"01", b"+1", b".5", b"1.", b"0x1",
    b"NaN", b"-Infinity", b"true", b"null", b'"1"', b'"true"', b"[1]", b"{}", b"1 2", b"", b"5e-324",
]  # fmt: skip
BODIES = [
    *(body for _, body, _ in DECIDE if len(body) < 60_000),
    b'{"arms": "x", "arms": [[0,1]], "key": "1"}', b'{"arms": [[0,1]], "arms": "x", "key": "2"}',
    b'{"arms": [[0,1]], "arms": null, "key": "3"}', b'{"arms": [[0,1]], "key": 1, "key": "4"}',
    b'{"\\u0061rms": [[1,1],[1,0]], "key": "5"}', b'{"Arms": [[1,1]], "key": "6"}',
    b'{"arms": [[1,1]], "key": "7", "__class__": 1}', b'\xef\xbb\xbf{"arms": [[1,1]], "key": "8"}',
    GOOD.decode().encode("utf-16"), b'{"arms": [[1,1]], "key": "\xe9"}',
    b'{"arms": [[1,1]], "key": "\xc3\xa9"}',
    b'{"arms": [[1,1]], "key": "\xed\xa0\x80"}', b'{"arms": [[1,1]], "key": "\\ude00\\ud83d"}',
    b'{"arms": [[1,1]], "key": "a\nb"}', b'{"arms": [[1,1]], "key": "%s"}' % ("é" * 200).encode(),
    b'{"arms": [[1,1]], "key": "9"} ', b'{"arms": [[1,1]], "key": "w"}x', b'{"arms": [[1,1]], "key": "v"}{}',
    b'{"arms": [[1,1]], "key": "u"}\0', b'{"arms": [[1,1],], "key": "s"}',
    b'{"arms": [[1,1]] /**/, "key": "r"}',
    b'{"arms": [[1,1]], "context": [], "key": "q"}', b'{"arms": [[1,1]], "context": {}, "key": "p"}',
    b'{"arms": [[1,1]], "arm_ids": [], "key": "o"}', b'{"arms": [[1,1]], "arm_ids": ["true"], "key": "true"}',
    b'{"arms": [[[1,1]]], "key": "l"}', b'{"arms": [1,1], "key": "k"}', b'{"arms": {"0": [1,1]}, "key": "j"}',
    b'{"arms": [[1,1],[]], "key": "h"}', b"null", b"[]", b'{"key": "whole"}', b'{"context": [], "key": "c"}',
    b'{"arm_ids": ["x"], "key": "i"}', b'{"arm_ids": ["x","x"], "key": "ii"}', b'{"arm_ids": ["nope"]}',
    b'{"arms": [' + b"[1,1]," * 1000 + b'[1,1]], "key": "many"}',
]  # fmt: skip


def request(
    target: bytes = b"/v1/bandits/b/decide",
    body: bytes = GOOD,
    header: bytes = b"",
    method: str = "POST",
    version: str = "1.1",
) -> bytes:
    lines = [b"Host: localhost", b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    name = header.partition(b":")[0].strip().lower()
    lines = [line for line in lines if line.partition(b":")[0].lower() != name]
    start = b" ".join([method.encode(), target, f"HTTP/{version}".encode()])
    return b"\r\n".join([start, *lines, *([header] if header else []), b"", body])


def odd_heads() -> Iterator[bytes]:
    for end in (b"/decide", b"/reward"):
        for method in METHODS:
            yield request(b"/v1/bandits/b" + end, method=method)
        for name in NAMES:
            yield request(b"/v1/bandits/" + name + end)
    for target in TARGETS:
        for method in ("POST", "PUT", "GET"):
            yield request(target, method=method)
    for version in VERSIONS:
        for header in (b"", b"Connection: close", b"Connection: keep-alive"):
            yield request(header=header, version=version)
    for header in HEADERS:
        yield request(header=header)
    for coding in (b"chunked", b"Chunked", b"gzip, chunked", b"chunked, chunked", b"xchunked"):
        chunks = b"%x;a=b\r\n%s\r\n0\r\nX-T: a\r\n\r\n" % (len(GOOD), GOOD)
        yield request(body=chunks, header=b"Transfer-Encoding: " + coding)
        yield request(body=chunks).replace(
            b"Content-Length: %d" % len(chunks), b"Transfer-Encoding: " + coding
        )


def odd_decisions() -> Iterator[bytes]:
    yield from BODIES
    for i, number in enumerate(NUMBERS):
        yield b'{"arms": [[%s, 1], [0.5, 1]], "key": "x%d"}' % (number, i)
        yield b'{"arms": [[1, 0], [%s, %s]], "key": "y%d"}' % (number, number, i)
        yield b'{"arms": [[1,0],[0,1]], "arm_ids": [%s, "b"], "context": null, "key": "z%d"}' % (number, i)
        yield b'{"arms": [[1,0],[0,1]], "key": %s}' % number


def odd_rewards(decision: str) -> Iterator[bytes]:
    known = decision.encode()
    for number in NUMBERS:
        yield b'{"decision_id": "%s", "reward": %s}' % (known, number)
        yield b'{"decision_id": %s, "reward": 1}' % number
    for identifier in (b"nope", b"", b"\xff", b"\\ud800", b" " + known, known.upper(), known + b"\\u0000"):
        yield b'{"decision_id": "%s", "reward": 1}' % identifier
    yield b'{"decision_id": "%s", "reward": 0.5, "reward": 1}' % known
    yield b'{"decision_id": "%s", "reward": 1, "x": 2}' % known


class Ways:
    """Both ways of one server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.short = True
        self.granted = self.sent = 0
        take, grant, parse = FastConnection._taken, FastConnection._granted, parsing.parse

        def taken(connection: FastConnection) -> Any:
            return take(connection) if self.short else None

        def counted(connection: FastConnection, reply: Any) -> bool:
            found = grant(connection, reply)
            self.granted += found
            return found

        def read(body: bytes, model: Any) -> Any:
            return parse(body, model) if self.short else model.model_validate_json(body)

        monkeypatch.setattr("linmed.serve.scheduling.DEAR", 1.0)  # on a busy machine too decisions are short
        monkeypatch.setattr(FastConnection, "_taken", taken)
        monkeypatch.setattr(FastConnection, "_granted", counted)
        monkeypatch.setattr(parsing, "parse", read)

    def agree(self, app: httpx.Client, raw: bytes) -> None:
        """Asked again where a busy machine was late: what disagrees by itself does so each time."""
        shorter_first = self.sent % 2 == 0
        self.sent += 1
        answers: dict[bool, bytes] = {}
        for _ in range(4):
            for self.short in (shorter_first, not shorter_first):
                with connection(app) as opened:
                    opened.sendall(raw + NEXT)
                    answers[self.short] = told(last_words(opened), keyed=b'"key": "' in raw)
            self.short = True
            if answers[True] == answers[False]:
                return
        assert answers[True] == answers[False], raw.replace(PAD, b"")


def told(raw: bytes, keyed: bool) -> bytes:
    """Without what may differ: the date, whether it came before, and which decision where no key says."""
    raw = re.sub(rb'date: [^\r]*\r\n|content-length: \d+\r\n|"repeated":(true|false)', b"", raw)
    raw = raw if keyed else re.sub(rb'\{"decision_id".*?\}', b"{}", raw)
    return b"\n".join(sorted(raw.lower().split(b"\r\n")))


def test_odd_requests_are_answered_alike_by_both_ways(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = Ways(monkeypatch)
    with application(sqlite, head_seconds=0.2, body_seconds=0.2) as app:
        create(app)
        create(app, "archived")
        create(app, "cat", catalogue={"ids": ["x", "y"], "features": [[1.0, 0.0], [0.0, 1.0]]})
        old = decide(app, "archived")["decision_id"]
        app.delete("/v1/bandits/archived")
        for raw in odd_heads():
            ways.agree(app, raw)
        for body in BODIES:
            ways.agree(app, request(b"/v1/bandits/cat/decide", body))
            ways.agree(app, request(b"/v1/bandits/archived/decide", body))
        for body in odd_decisions():
            ways.agree(app, request(b"/v1/bandits/b/decide", body))
            large = body.replace(b"{", b"{" + PAD, 1).replace(b'"key": "', b'"key": "large')
            ways.agree(app, request(b"/v1/bandits/b/decide", large))
        for name, body in (("b", b) for b in odd_rewards("{}")):
            known = decide(app, name)["decision_id"].encode()
            ways.agree(app, request(b"/v1/bandits/b/reward", body.replace(b"{}", known, 1)))
        for body in odd_rewards(old):
            ways.agree(app, request(b"/v1/bandits/archived/reward", body))
    assert ways.sent > 700
    assert ways.granted > 100  # by the fast path


def test_strangers_are_told_the_same_by_both_ways_though_their_bodies_never_come(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scopes = (("admin", None), ("decide", "b"), ("decide", "c"), ("read", None))
    tokens = [token_for(sqlite, scope, bandit=bandit) for scope, bandit in scopes]
    right = tokens[1]
    given = [f"Bearer {token}" for token in tokens] + ["Bearer", f"bearer  {right}", f"Basic {right}", ""]
    given += [f"Bearer x\r\nAuthorization: Bearer {right}", f"Bearer {right}\r\nAuthorization: Bearer x"]
    ways = Ways(monkeypatch)
    with application(sqlite, head_seconds=0.1, body_seconds=0.1) as app:
        for name in ("b", "c"):
            body = {"name": name, "dim": 2}
            assert app.post("/v1/bandits", json=body, headers=bearer(tokens[0])).status_code == 201
        for authorization in given:
            header = f"Authorization: {authorization}".encode()
            for target in (b"/v1/bandits/b/decide", b"/v1/bandits/%62/reward", b"/v1/bandits/none/decide"):
                for kind in (b"application/json", b"text/plain"):
                    raw = request(target, header=header).replace(b"application/json", kind)
                    ways.agree(app, raw)
        for authorization in given[:5]:
            whole = request(header=f"Authorization: {authorization}".encode())
            ways.agree(app, whole.replace(b"Content-Length: ", b"Content-Length: 9"))
    assert ways.granted > 3


def mutated(raw: bytes, chance: random.Random) -> bytes:
    """A request with some of its bytes changed, left out, doubled or exchanged with another's."""
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        at, much = chance.randrange(len(raw)), chance.choice([1, 1, 2, 8])
        part = raw[at : at + much]
        new = chance.choice(
            [b"", part + part, bytes([chance.randrange(256)]), part.swapcase(), b"9", b"\r\n"]
        )
        raw = raw[:at] + new + raw[at + much :]
    return raw


def test_seeded_changes_of_requests_are_answered_alike_by_both_ways(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, ways = random.Random(30), Ways(monkeypatch)
    bodies = [*BODIES, *([GOOD] * len(BODIES))]
    with application(sqlite, head_seconds=0.1, body_seconds=0.1) as app:
        create(app, catalogue={"ids": ["x", "y"], "features": [[1.0, 0.0], [0.0, 1.0]]})
        for i in range(300):
            body = chance.choice(bodies).replace(b'"key": "', b'"key": "%d-' % i)
            if i % 3 == 0:
                known = decide(app, arms=ARMS)["decision_id"].encode()
                body = b'{"decision_id": "%s", "reward": %s}' % (known, chance.choice(NUMBERS))
            raw = request(b"/v1/bandits/b/reward" if i % 3 == 0 else b"/v1/bandits/b/decide", body)
            ways.agree(app, mutated(raw, chance))
    assert ways.granted > 50


@pytest.fixture
def asgi(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that go the way of all."""
    found: list[str] = []
    plain = Middleware.__call__

    async def watched(self: Middleware, scope: Any, receive: Any, send: Any) -> None:
        found.append(scope.get("path", ""))
        await plain(self, scope, receive, send)

    monkeypatch.setattr(Middleware, "__call__", watched)
    monkeypatch.setattr("linmed.serve.scheduling.DEAR", 1.0)
    return found


def test_decisions_and_rewards_take_the_short_way(asgi: list[str], sqlite: str) -> None:
    with application(sqlite) as app:
        create(app)
        asgi.clear()
        reward(app, decide(app, arms=ARMS, key="k", arm_ids=["a", "b", "c"]), 1.0)
        with connection(app) as opened:  # as many clients send: the head, then the body
            opened.sendall(HEAD + f"Content-Length: {len(BODY)}\r\n\r\n".encode())
            time.sleep(0.1)
            opened.sendall(BODY)
            assert answer(opened).startswith(b"HTTP/1.1 200 ")
        assert asgi == []
        assert 'decide",status="200"} 2.0' in app.get("/metrics").text
        app.post("/v1/bandits/b/decide", content=iter([BODY]), headers=KIND)
        assert asgi == ["/metrics", "/v1/bandits/b/decide"]
