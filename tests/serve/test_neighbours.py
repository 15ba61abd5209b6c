"""One caller does not stop the others: reports, dear decisions, and callers who leave."""

import contextlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from linmed.serve import middleware as tokens
from linmed.serve import processes
from linmed.serve.database import Database

from .serving import Running, application, create, decide, reward, until

SILENT = [sys.executable, "-c", "import sys; [None for _ in sys.stdin]"]
"""A reporter that never answers."""
SLOW = {"policy": "LinTS"}
"""Takes 20 ms for a decision among 1000 arms."""
ARMS, DIM = 1000, 64
CATALOGUE = {
    "ids": [f"a{i}" for i in range(ARMS)],
    "features": np.random.default_rng(2).normal(size=(ARMS, DIM)).round(3).tolist(),
}


def sent(url: str, method: str, path: str, body: Any = None, token: str = "") -> socket.socket:
    """A request whose caller does not read the answer yet, and may leave."""
    host, port = url.removeprefix("http://").split(":")
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {token}\r\n" if token else ""
    opened = socket.create_connection((host, int(port)))
    opened.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    return opened


def answered(opened: socket.socket) -> bool:
    return bool(select.select([opened], [], [], 0)[0])


@contextlib.contextmanager
def leaving(callers: list[socket.socket]) -> Iterator[list[socket.socket]]:
    """Callers who are gone at the end, whatever happens."""
    try:
        yield callers
    finally:
        for one in callers:
            one.close()


def children(pid: int) -> list[int]:
    """Processes that this one has started and that run."""
    found = [int(one) for task in Path(f"/proc/{pid}/task").iterdir()
             for one in (task / "children").read_text().split()]  # fmt: skip
    return [one for one in found if alive(one)]


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.linux
def test_tokens_readiness_and_other_bandits_do_not_wait_for_evaluations(sqlite: str, tmp_path: Path) -> None:
    opened = Database(sqlite)
    opened.open()
    admin, guest = (tokens.create(opened, [scope]) for scope in ("admin", "read"))
    headers = {"Authorization": f"Bearer {admin}"}
    long = {"targets": [{"name": f"t{i}", "policy": {**SLOW, "sigma": 1 + i / 10}} for i in range(20)]}
    with Running(sqlite, tmp_path, "--staleness", "0.1") as server, server.client(headers=headers) as client:
        create(client, "other")
        create(client, "log", 10, reward_range=[0.0, 1.0])
        arms = np.random.default_rng(1).random((2000, 20, 10)).round(2).tolist()
        for start in range(0, 2000, 200):
            batch = {"decisions": [{"arms": one} for one in arms[start : start + 200]]}
            found = client.post("/v1/bandits/log/decide/batch", json=batch).json()["decisions"]
            pairs = [{"decision_id": one["decision_id"], "reward": 0.5} for one in found]
            assert client.post("/v1/bandits/log/reward/batch", json={"rewards": pairs}).status_code == 200
        evaluations = [sent(server.url, "POST", "/v1/bandits/log/evaluate", long, admin) for _ in range(8)]
        with leaving(evaluations), server.client(headers={"Authorization": f"Bearer {guest}"}) as other:
            until(lambda: len(children(server.process.pid)) == 2)
            assert other.get("/v1/bandits").status_code == 200
            assert tokens.revoke(opened, guest.split("_")[1])
            until(lambda: other.get("/v1/bandits").status_code == 401)
            for _ in range(20):
                assert client.get("/readyz").json() == {"status": "ready"}
                assert client.get("/v1/bandits/other/statistics").status_code == 200
                decide(client, "other")
            assert not any(map(answered, evaluations))  # all of this while they were being made
        until(lambda: children(server.process.pid) == [])  # nobody waits for them any more
    opened.close()


def test_reports_beyond_the_queue_are_refused_and_callers_who_leave_make_room(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = processes.REPORTER
    monkeypatch.setattr(processes, "REPORTER", SILENT)
    with application(sqlite, processes=True, reporters=1, max_reports=2) as app:
        create(app)
        url, path = str(app.base_url), "/v1/bandits/b/evaluate"

        def full() -> bool:
            """Asking once more is refused: one report is being made, and two wait."""
            with leaving([sent(url, "POST", path, {})]) as (more,):
                return bool(select.select([more], [], [], 0.2)[0]) and b" 429 " in more.recv(100)

        with leaving([sent(url, "POST", path, {}) for _ in range(3)]) as callers:
            until(full)
            refused = app.post(path, json={})
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
            assert "2 reports are waiting already" in refused.json()["error"]["message"]
            assert app.get("/v1/bandits/b/log").status_code == 429
            callers.pop(1).close()  # one that waits
            until(lambda: not full())
            assert not any(map(answered, callers))
            monkeypatch.setattr(processes, "REPORTER", usual)
        until(lambda: app.get("/v1/bandits/b/log").status_code == 200)  # made by a new process
        text = app.get("/metrics").text
        assert 'linmed_requests_total{route="/v1/bandits/{name}/evaluate",status="499"}' in text


@pytest.mark.linux
def test_a_reporter_is_polite_keeps_the_database_to_itself_and_ends_with_a_killed_server(
    sqlite: str, tmp_path: Path
) -> None:
    with Running(sqlite, tmp_path) as server, server.client() as client:
        create(client)
        assert children(server.process.pid) == []  # none before it is needed
        assert client.get("/v1/bandits/b/log").status_code == 200
        (reporter,) = children(server.process.pid)
        assert os.getpriority(os.PRIO_PROCESS, reporter) >= 5
        for what in ("cmdline", "environ"):
            assert b"test.db" not in Path(f"/proc/{reporter}/{what}").read_bytes()
        os.kill(reporter, signal.SIGKILL)
        until(lambda: not alive(reporter))
        # And again, by another; a request that meets the dead one is told to come back.
        until(lambda: client.get("/v1/bandits/b/log").status_code == 200)
        (reporter,) = children(server.process.pid)
        server.end(signal.SIGKILL)
        until(lambda: not alive(reporter))


def test_a_request_is_bounded_by_the_work_it_asks_for(app: httpx.Client) -> None:
    create(app, dim=DIM, catalogue=CATALOGUE)
    refused = app.post("/v1/bandits/b/decide/batch", json={"decisions": [{}] * 1000})
    assert refused.status_code == 422
    error = refused.json()["error"]
    assert error["field"] == "decisions"
    for said in ("64,000,000 numbers", "4,000,000 are allowed", "at most 62 in a batch"):
        assert said in error["message"]
    few = {"decisions": [{"arm_ids": ["a0", "a1"]}] * 1000}
    assert app.post("/v1/bandits/b/decide/batch", json=few).status_code == 200
    assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 1000


def test_one_decision_is_bounded_too(sqlite: str) -> None:
    with application(sqlite, max_work=100) as app:
        create(app, dim=DIM, catalogue=CATALOGUE)
        error = app.post("/v1/bandits/b/decide", json={}).json()["error"]
        assert error["field"] == "arms"
        assert "64,000 numbers" in error["message"]
        decide(app, arm_ids=["a0"])


def test_others_decide_and_rewards_are_folded_while_a_dear_batch_is_drawn_from_one_state(
    app: httpx.Client,
) -> None:
    create(app, "small")
    create(app, dim=DIM, policy=SLOW, catalogue=CATALOGUE)
    first = decide(app, key="first")
    with leaving([sent(str(app.base_url), "POST", "/v1/bandits/b/decide/batch",
                       {"decisions": [{"key": f"k{i}"} for i in range(62)]})]) as (batch,):  # fmt: skip
        answers = 0
        while not answered(batch):
            decide(app, "small")
            if answers == 3:
                reward(app, first, 1.0)
                quick = decide(app, arm_ids=["a0"])
                assert app.get("/v1/bandits/b/state").json()["count"] == 1
            answers += 1
        assert answers > 10
    until(lambda: app.get("/v1/bandits/b/statistics").json()["decisions"] == 64)
    repeated = [decide(app, key=f"k{i}") for i in (0, 61)]
    stored = [app.get(f"/v1/bandits/b/decisions/{one['decision_id']}").json() for one in (quick, *repeated)]
    assert [one["absorbed"] for one in stored] == [1, 0, 0]
    assert stored[0]["time"] <= stored[1]["time"]  # in the order of the log
    assert app.get("/v1/bandits/b/state").json()["count"] == 1


def test_what_a_caller_who_has_left_asked_for_is_not_drawn(app: httpx.Client) -> None:
    create(app, "small")
    create(app, dim=DIM, policy=SLOW, catalogue=CATALOGUE)
    with leaving([sent(str(app.base_url), "POST", "/v1/bandits/b/decide/batch", {"decisions": [{}] * 62})]):
        decide(app, "small")
    left = 'linmed_requests_total{route="/v1/bandits/{name}/decide/batch",status="499"} 1.0'
    until(lambda: left in app.get("/metrics").text)
    assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 0
    decide(app, arm_ids=["a0"])
