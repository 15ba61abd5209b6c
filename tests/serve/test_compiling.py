"""A machine that has compiled nothing yet: the service answers while it compiles."""

import threading
import time
from pathlib import Path

import httpx
import pytest

from linmed.policies import Uniform
from linmed.serve import database as db
from linmed.serve import server as serving
from linmed.serve import store
from linmed.serve.client import Client
from linmed.serve.compiling import Compiler

from .serving import ARMS, SETTINGS, Running, application, create, decide, reward


def test_others_are_served_while_the_first_bandit_of_a_policy_is_made(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "empty"))
    with Running(sqlite, tmp_path) as server, server.client() as client, Client(server.url) as documented:
        old = {"arms": [[1.0, 0.0], [0.0, 1.0]]}
        documented.create("old", 2, {"policy": "MaillardSampling"})
        made = threading.Thread(target=documented.create, args=("new", 2, {"policy": "Greedy"}))
        made.start()
        while list((tmp_path / "empty").rglob("*.lock")) == []:  # it compiles
            assert made.is_alive()
            time.sleep(0.01)
        answered = 0
        while made.is_alive():
            assert client.get("/healthz").json() == {"status": "ok"}
            assert client.get("/readyz").json() == {"status": "ready"}
            reward(client, decide(client, "old", **old), 1.0, "old")
            answered += 1
        assert answered > 3
        made.join()
        decide(client, "new")


def with_a_bandit(sqlite: str, name: str) -> None:
    opened = db.Database(sqlite)
    opened.open()
    with opened.writer.begin() as connection:
        store.add_bandit(connection, name, 2, SETTINGS, Uniform())
    opened.close()


def test_a_server_that_begins_answers_before_its_bandits_are_compiled(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_a_bandit(sqlite, "b")
    go = threading.Event()
    walk = Compiler._walk
    monkeypatch.setattr(Compiler, "_walk", lambda self, policy: go.wait() and walk(self, policy))
    monkeypatch.setattr(serving, "PATIENCE", 0.05)
    with application(sqlite) as app:
        assert app.get("/healthz").json() == {"status": "ok"}
        answer = app.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "compiling"})
        refused = app.post("/v1/bandits/b/decide", json={"arms": ARMS})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert "compiled" in refused.json()["error"]["message"]
        go.set()
        while app.get("/readyz").status_code != 200:
            time.sleep(0.01)
        decide(app)


def test_a_server_can_be_stopped_while_it_compiles(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_a_bandit(sqlite, "b")
    shapes = iter(range(100_000))  # a quarter of an hour, if nothing stops it
    seen = []

    def slowly(policy: object) -> object:
        for shape in shapes:
            time.sleep(0.01)
            seen.append(shape)
            yield shape

    monkeypatch.setattr("linmed.serve.compiling.walk_all", slowly)
    with application(sqlite):
        while not seen:
            time.sleep(0.01)
    assert len(seen) < 100_000


def test_a_policy_that_refuses_some_shapes_is_served(
    app: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(policy: object) -> object:
        raise ValueError("only three arms")

    monkeypatch.setattr("linmed.serve.compiling.walk_all", refuse)
    create(app, policy={"policy": "Uniform"})
    decide(app)
