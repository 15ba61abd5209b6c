"""The usual requests take a shorter way than the others, and nobody can tell by the answers."""

import time
from typing import Any

import httpx
import pytest

from linmed.serve import middleware as gate

from .serving import ARMS, application, create, decide, reward
from .test_protocol import BODY, HEAD, answer, connection
from .test_security import bearer, token_for

KIND = {"Content-Type": "application/json"}


def both_ways(
    app: httpx.Client, path: str, body: bytes, **headers: str
) -> tuple[httpx.Response, httpx.Response]:
    """The answers to a body of known length, which is what most clients send, and to one in chunks."""
    usual = app.post(path, content=body, headers={**KIND, **headers})
    other = app.post(path, content=iter([body]), headers={**KIND, **headers})
    return usual, other


@pytest.fixture
def asgi(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that go the way of all."""
    found: list[str] = []
    plain = gate.Gate.__call__

    async def watched(self: gate.Gate, scope: Any, receive: Any, send: Any) -> None:
        found.append(scope.get("path", ""))
        await plain(self, scope, receive, send)

    monkeypatch.setattr(gate.Gate, "__call__", watched)
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


def test_both_ways_give_the_same_decision_and_the_same_headers(app: httpx.Client) -> None:
    create(app, catalogue={"ids": ["x", "y"], "features": [[1.0, 0.0], [0.0, 1.0]]})
    for body in (
        b'{"arms": [[1, 0], [0.5, 2]], "key": "a"}',
        b'{"key": "b"}',
        b'{"arm_ids": ["y"], "key": "c"}',
    ):
        usual, other = both_ways(app, "/v1/bandits/b/decide", body)
        assert usual.status_code == other.status_code == 200
        assert {**usual.json(), "repeated": True} == other.json()
        assert set(usual.headers) == set(other.headers)
        reported = b'{"decision_id": "%s", "reward": 1}' % usual.json()["decision_id"].encode()
        usual, other = both_ways(app, "/v1/bandits/b/reward", reported)
        assert {**usual.json(), "repeated": True} == other.json()


def test_both_ways_keep_the_same_people_out(sqlite: str) -> None:
    admin, reader = token_for(sqlite, "admin"), token_for(sqlite, "read")
    elsewhere = token_for(sqlite, "decide", bandit="c")
    with application(sqlite) as app:
        for name in ("b", "c"):
            body = {"name": name, "dim": 2}
            assert app.post("/v1/bandits", json=body, headers=bearer(admin)).status_code == 201
        for token, status in ((admin, 200), (reader, 403), (elsewhere, 403), ("lm_wrong", 401)):
            for found in both_ways(app, "/v1/bandits/b/decide", BODY, **bearer(token)):
                assert found.status_code == status
    with application(sqlite, rate=5.0) as app:
        codes = {app.post("/v1/bandits/b/decide", content=BODY, headers=KIND | bearer(admin)).status_code
                 for _ in range(40)}  # fmt: skip
        assert codes == {200, 429}


def test_both_ways_refuse_another_decision_under_a_key_and_another_reward(app: httpx.Client) -> None:
    create(app)
    made = decide(app, arms=ARMS, key="k")
    reward(app, made, 1.0)
    for path, body in (
        ("decide", b'{"arms": [[1.0, 1.0]], "key": "k"}'),
        ("reward", b'{"decision_id": "%s", "reward": 0.0}' % made["decision_id"].encode()),
        ("reward", b'{"decision_id": "unknown", "reward": 0.0}'),
    ):
        usual, other = both_ways(app, f"/v1/bandits/b/{path}", body)
        assert (usual.status_code, usual.json()) == (other.status_code, other.json())
        assert usual.status_code in (404, 409)
