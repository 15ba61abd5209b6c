"""Health, metrics, load, shutdown."""

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed.cli import main
from linmed.serve import database as db
from linmed.serve.engine import Decide, Engine
from linmed.serve.errors import Refused
from linmed.serve.settings import Settings

from .serving import ARMS, Running, application, create, decide, reward


def test_health_readiness_and_metrics(app: httpx.Client) -> None:
    create(app)
    create(app, "other")
    reward(app, decide(app), 1.0)
    assert app.get("/healthz").json() == {"status": "ok"}
    assert app.get("/readyz").json() == {"status": "ready"}
    text = app.get("/metrics").text
    for what in ("decisions", "rewards"):
        assert f'linmed_{what}_total{{bandit="b"}} 1.0' in text
        assert f'linmed_{what}_total{{bandit="other"}} 0.0' in text
    assert 'linmed_requests_total{route="/v1/bandits/{name}/decide",status="200"} 1.0' in text


def test_a_stopped_server_has_answered_what_it_accepted_and_logs_json(sqlite: str, tmp_path: Path) -> None:
    with Running(sqlite, tmp_path) as server:
        with server.client() as client:
            create(client)
        acknowledged: list[str] = []
        halfway = threading.Event()

        def work(number: int) -> None:
            with server.client() as client:
                for _ in range(1000):
                    try:
                        answer = client.post("/v1/bandits/b/decide", json={"arms": ARMS})
                    except httpx.TransportError:
                        return
                    if answer.status_code != 200:
                        assert answer.status_code == 503
                        return
                    acknowledged.append(answer.json()["decision_id"])
                    if len(acknowledged) > 40:
                        halfway.set()

        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(work, i) for i in range(4)]
            assert halfway.wait(300)
            server.end(signal.SIGTERM)
            for future in futures:
                future.result()
        text = server.log.read_text()
        lines = [json.loads(line) for line in text.splitlines()]
    assert lines[-1]["message"] != "the engine failed"
    assert "stopped" in [line["message"] for line in lines]
    assert {"time", "level", "logger", "message"} <= set(lines[0])
    assert "\\u001b" not in text
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        stored = set(connection.execute(sa.select(db.decisions.c.id)).scalars())
    opened.close()
    assert set(acknowledged) <= stored


def test_sigterm_refuses_dear_decisions_in_time_and_loses_nothing(sqlite: str, tmp_path: Path) -> None:
    items = np.random.default_rng(0).normal(size=(1000, 4)).round(2).tolist()
    catalogue = {"ids": [f"i{i}" for i in range(1000)], "features": items}
    batch = {"decisions": [{"key": f"k{i}"} for i in range(1000)]}  # takes half a minute or more
    with Running(sqlite, tmp_path, "--stop-seconds", "2") as server, server.client() as client:
        create(client, "dear", dim=4, policy={"policy": "LinTS"}, catalogue=catalogue)
        create(client)
        first = decide(client, "dear", key="first")["decision_id"]
        with ThreadPoolExecutor(1) as pool:
            dear = pool.submit(client.post, "/v1/bandits/dear/decide/batch", json=batch)
            time.sleep(0.5)
            acknowledged = {first, decide(client)["decision_id"]}
            began = time.monotonic()
            server.end(signal.SIGTERM)
            took = time.monotonic() - began
            refused = dear.result()
    assert took < 25.0  # 2 and a little more; the batch takes longer, the busier the machine is
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["message"] == "the server is shutting down: try again"
    assert "CancelledError" not in server.log.read_text()
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        stored = set(connection.execute(sa.select(db.decisions.c.id)).scalars())
    opened.close()
    assert stored == acknowledged


def test_too_much_waiting_is_refused_and_the_rest_is_served(sqlite: str) -> None:
    opened = db.Database(sqlite)
    engine = Engine(opened, max_waiting=10)
    engine.accept(Decide([{}] * 8))
    with pytest.raises(Refused, match="waiting already") as refused:
        engine.accept(Decide([{}] * 3))
    assert (refused.value.kind, refused.value.retry_after) == ("overloaded", 1)
    engine.accept(Decide([{}] * 2))
    opened.close()


def test_a_flood_gets_429_with_retry_after_instead_of_errors(sqlite: str) -> None:
    with application(sqlite, max_waiting=1) as app:
        create(app)
        batch = {"decisions": [{"arms": ARMS}] * 50}
        with ThreadPoolExecutor(8) as pool:
            posts = [pool.submit(app.post, "/v1/bandits/b/decide/batch", json=batch) for _ in range(60)]
            answers = [post.result() for post in posts]
        codes = {answer.status_code for answer in answers}
        assert 200 in codes
        assert codes <= {200, 429}
        assert all("Retry-After" in answer.headers for answer in answers if answer.status_code == 429)
        served = sum(answer.status_code == 200 for answer in answers)
        assert app.get("/v1/bandits/b/statistics").json()["decisions"] == 50 * served


def test_check_says_what_is_wrong_without_serving(
    sqlite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--check", "--database", sqlite]) == 0
    assert capsys.readouterr().out.startswith("ok:")
    (tmp_path / "notes.txt").write_text("not a database" * 100)
    for place in ("no/such/folder/x.db", "notes.txt"):
        assert main(["serve", "--check", "--database", f"sqlite:///{tmp_path}/{place}"]) == 2
        assert capsys.readouterr().err.startswith("linmed serve: cannot open the database")


@pytest.mark.parametrize(
    "wrong", [{"port": -1}, {"staleness": 0.0}, {"max_arms": 0}, {"rate": -1.0}, {"max_body": 1.5}]
)
def test_settings_name_what_is_wrong(wrong: dict[str, float]) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "loopback"), [("::1", True), ("localhost", True), ("0.0.0.0", False), ("h", False)]
)
def test_loopback_addresses_are_known(host: str, loopback: bool) -> None:
    assert Settings(host=host).loopback is loopback


def test_a_state_that_cannot_be_folded_makes_the_server_not_ready(
    app: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from linmed.serve.bandit import Bandit

    create(app)
    decision = decide(app)

    def broken(self: Bandit, features: object, rewards: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Bandit, "fold", broken)
    assert not reward(app, decision, 1.0)["repeated"]  # it is in the log
    assert app.get("/readyz").status_code == 503


def test_stopping_during_rewards_answers_them_all(sqlite: str) -> None:
    with application(sqlite, snapshot_every=1) as app:
        create(app)
        decisions = [decide(app) for _ in range(30)]
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(reward, app, decision, 0.5) for decision in decisions]
            assert all(not answer.result()["repeated"] for answer in answers)
    with application(sqlite) as app:
        assert app.get("/v1/bandits/b/state").json()["count"] == 30
