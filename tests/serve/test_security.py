"""Who may do what, and what no answer shows."""

import hashlib
import time

import httpx
import pytest
import sqlalchemy as sa

from linmed.cli import main
from linmed.serve import database as db
from linmed.serve import middleware as tokens
from linmed.serve.middleware import Rates

from .serving import ARMS, application, create, decide, until


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def token_for(url: str, *scopes: str, bandit: str | None = None) -> str:
    opened = db.Database(url)
    opened.open()
    token = tokens.create(opened, list(scopes), bandit)
    opened.close()
    return token


def test_an_address_others_can_reach_needs_tokens(sqlite: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["serve", "--database", sqlite, "--host", "0.0.0.0", "--check"]
    assert main(command) == 2
    assert "no tokens" in capsys.readouterr().err
    token_for(sqlite, "admin")
    assert main(command) == 0


def test_scopes_and_bandits_bound_what_a_token_may_do(sqlite: str) -> None:
    admin, reader = token_for(sqlite, "admin"), token_for(sqlite, "read")
    decider = token_for(sqlite, "decide", bandit="b")
    with application(sqlite) as app:
        assert app.get("/v1/bandits").status_code == 401
        assert app.get("/v1/bandits", headers=bearer("lm_000000000000_" + "A" * 43)).status_code == 401
        assert (
            app.get(
                "/v1/bandits", headers=bearer(admin[:-1] + ("a" if admin[-1] != "a" else "b"))
            ).status_code
            == 401
        )
        for name in ("b", "c"):
            body = {"name": name, "dim": 2}
            assert app.post("/v1/bandits", json=body, headers=bearer(reader)).status_code == 403
            assert app.post("/v1/bandits", json=body, headers=bearer(admin)).status_code == 201
        ask = {"json": {"arms": ARMS}}
        assert app.post("/v1/bandits/b/decide", **ask, headers=bearer(decider)).status_code == 200
        assert app.post("/v1/bandits/c/decide", **ask, headers=bearer(decider)).status_code == 403
        assert app.post("/v1/bandits/b/decide", **ask, headers=bearer(reader)).status_code == 403
        assert app.get("/v1/bandits/b/log", headers=bearer(decider)).status_code == 403
        assert app.get("/v1/bandits/b/log", headers=bearer(reader)).status_code == 200
        assert app.get("/v1/bandits", headers=bearer(decider)).json() == []
        assert app.get("/metrics").status_code == 401
        assert app.get("/healthz").status_code == app.get("/").status_code == 200


def test_revoking_the_last_token_leaves_the_server_closed(
    sqlite: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, last = token_for(sqlite, "read"), token_for(sqlite, "admin")

    def command(*words: str) -> str:
        assert main(["serve", "--database", sqlite, *words]) == 0
        return capsys.readouterr().out

    with application(sqlite, staleness=0.05) as app:
        assert app.post("/v1/bandits", json={"name": "b", "dim": 2}, headers=bearer(last)).status_code == 201
        for token in (first, last):
            assert app.get("/v1/bandits", headers=bearer(last)).status_code == 200
            assert app.get("/v1/bandits", headers=bearer(token)).status_code == 200
            assert "revoked" in command("--revoke-token", token.split("_")[1])
            until(lambda token=token: app.get("/v1/bandits", headers=bearer(token)).status_code == 401)  # type: ignore[misc]
        assert app.delete("/v1/bandits/b").status_code == 401
        assert app.get("/v1/bandits", headers={"Host": "localhost"}).status_code == 401
    assert command("--list-tokens").count("(revoked)") == 2
    assert "0 tokens" in command("--check")
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:  # nothing by which an older release would know it
        assert set(connection.execute(sa.select(db.tokens.c.hash)).scalars()) == {b""}
    opened.close()
    with application(sqlite) as app:  # begun anew it is closed too, until there is another token
        assert app.delete("/v1/bandits/b").status_code == 401
    another = command("--create-token", "admin").strip()
    with application(sqlite) as app:
        assert app.delete("/v1/bandits/b", headers=bearer(last)).status_code == 401
        assert app.delete("/v1/bandits/b", headers=bearer(another)).status_code == 200


def test_the_database_holds_the_hash_and_not_the_token(sqlite: str) -> None:
    token = token_for(sqlite, "read")
    secret = token.split("_", 2)[2]
    opened = db.Database(sqlite)
    with opened.reader.begin() as connection:
        row = connection.execute(sa.select(db.tokens)).one()
    opened.close()
    assert row.hash == hashlib.sha256(secret.encode()).digest()
    assert secret not in str(row)


def test_a_server_without_tokens_answers_only_to_its_own_name(app: httpx.Client) -> None:
    assert app.get("/v1/bandits", headers={"Host": "attacker.example"}).status_code == 403
    assert app.get("/v1/bandits", headers={"Host": "localhost:8000"}).status_code == 200


def test_a_caller_above_the_rate_is_told_to_wait(sqlite: str) -> None:
    with application(sqlite, rate=5.0) as app:
        answers = [app.get("/v1/bandits") for _ in range(40)]
        late = [answer for answer in answers if answer.status_code == 429]
        assert late
        assert late[0].headers["Retry-After"] == "1"


def test_rates_refill_and_forget_idle_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    rates = Rates(1.0)
    assert [rates.take("a") for _ in range(3)] == [True, True, False]
    now[0] = 1.0
    assert [rates.take("a") for _ in range(2)] == [True, False]
    for i in range(10_001):
        rates.take(f"caller {i}")
    now[0] = 100.0
    rates.take("another")
    assert len(rates._buckets) < 10


def test_a_large_body_is_refused_whether_its_length_is_said_or_not(sqlite: str) -> None:
    with application(sqlite, max_body=2000) as app:
        create(app)
        body = b'{"arms": [' + b" " * 3000 + b"]}"
        kind = {"Content-Type": "application/json"}
        said = app.post("/v1/bandits/b/decide", content=body, headers=kind)
        unsaid = app.post("/v1/bandits/b/decide", content=iter([body[:1500], body[1500:]]), headers=kind)
        assert said.status_code == unsaid.status_code == 413
        assert "2000 bytes" in unsaid.json()["error"]["message"]


def test_an_internal_error_shows_nothing_of_the_inside(
    app: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: object, name: str) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("linmed.serve.reports.statistics", broken)
    create(app)
    answer = app.get("/v1/bandits/b/statistics")
    assert answer.status_code == 500
    assert answer.json() == {"error": {"status": 500, "message": "internal error", "field": None}}


def test_text_from_outside_is_data_and_not_sql(app: httpx.Client) -> None:
    create(app)
    evil = "x'; DROP TABLE decisions; --"
    first = decide(app, arms=ARMS, arm_ids=[evil, "b", "c"], key=evil)
    assert decide(app, arms=ARMS, arm_ids=[evil, "b", "c"], key=evil)["decision_id"] == first["decision_id"]
    assert app.get(f"/v1/bandits/b/decisions/{evil}").status_code == 404


def test_every_answer_forbids_framing_and_foreign_scripts(app: httpx.Client) -> None:
    for path in ("/", "/v1/bandits", "/nowhere"):
        headers = app.get(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_what_a_token_is_for_is_one_line_and_a_name(sqlite: str) -> None:
    opened = db.Database(sqlite)
    opened.open()
    for label in ("shop\nffffffffffff  admin  all bandits", "\x1b[2J", "x" * 201):
        with pytest.raises(ValueError, match="label must be one line"):
            tokens.create(opened, ["read"], label=label)
    for bandit in ("a b", "../b", "b\n", "\ud800", "*"):
        with pytest.raises(ValueError, match="bandit must be a bandit's name"):
            tokens.create(opened, ["read"], bandit)
    assert tokens.listing(opened) == []
    tokens.create(opened, ["read"], "not-yet-made", "the shop’s page")
    assert [row["bandit"] for row in tokens.listing(opened)] == ["not-yet-made"]
    opened.close()
