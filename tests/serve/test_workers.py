"""`--workers`: several processes behind one port are one service."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from linmed.cli.serve import hide_password
from linmed.serve import database as db

from .serving import ARMS, Running, create, decide, reward
from .test_many_servers import until

pytestmark = pytest.mark.linux
PATIENCE = 120.0
"""Seconds: three processes start, on a machine that may be busy."""


def workers(server: Running) -> list[int]:
    """The processes that the parent has started."""
    pid = server.process.pid
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listening(server: Running) -> int:
    """How many of them take connections."""
    port = f":{int(server.url.rsplit(':', 1)[1]):04X} "
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return sum(port in line.split(maxsplit=1)[1][:14] + " " and line.split()[3] == "0A" for line in lines)


@contextlib.contextmanager
def two_workers(database: str, folder: Path) -> Iterator[Running]:
    with Running(database, folder, "--workers", "2", "--staleness", "0.1") as server:
        until(lambda: listening(server) == 2, PATIENCE)
        yield server


def counted(client: httpx.Client, name: str) -> float:
    found = re.search(
        rf"^{name}_total(?:{{[^}}]*}})? ([0-9.e+]+)$", client.get("/metrics").text, re.MULTILINE
    )
    return float(found[1]) if found else 0.0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_worker_killed_under_load_loses_nothing_and_comes_back(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = request.getfixturevalue(kind)
    decided: list[str] = []
    rewarded: list[str] = []
    stop = threading.Event()
    with two_workers(database, tmp_path) as server:

        def play() -> None:
            while not stop.is_set():
                # Connections of one round each, so that every worker gets some.
                with contextlib.suppress(httpx.TransportError), server.client() as client:
                    decision = client.post("/v1/bandits/b/decide", json={"arms": ARMS})
                    assert decision.status_code in (200, 503), decision.text
                    if decision.status_code == 200:
                        body = {"decision_id": decision.json()["decision_id"], "reward": 0.5}
                        decided.append(body["decision_id"])
                        if client.post("/v1/bandits/b/reward", json=body).status_code == 200:
                            rewarded.append(body["decision_id"])

        with server.client() as client:
            create(client)
        with ThreadPoolExecutor(4) as pool:
            players = [pool.submit(play) for _ in range(4)]
            try:
                until(lambda: len(rewarded) > 40, PATIENCE)
                victim, survivor = workers(server)
                os.kill(victim, signal.SIGKILL)
                before = len(rewarded)
                until(lambda: len(rewarded) > before + 40, PATIENCE)  # the other goes on
                until(lambda: listening(server) == 2 and victim not in workers(server), PATIENCE)
                assert survivor in workers(server)
                before = len(rewarded)
                until(lambda: len(rewarded) > before + 40, PATIENCE)
            finally:
                stop.set()
        for player in players:
            player.result()

        opened = db.Database(database)
        with opened.reader.begin() as connection:
            ids = set(connection.execute(sa.select(db.decisions.c.id)).scalars())
            count = connection.execute(sa.select(sa.func.count()).select_from(db.rewards)).scalar_one()
        opened.close()
        assert set(decided) <= ids
        assert len(rewarded) <= count <= len(decided)

        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(server.client()) for _ in range(12)]

            def states() -> list[Any]:
                return [one.get("/v1/bandits/b/state").json() for one in clients]

            until(lambda: all(state["count"] == count for state in states()), PATIENCE)
            found = states()
            assert all(state == found[0] for state in found)  # every array, to the last bit

            # Whoever is asked answers for all, the killed one included.
            sums = [counted(one, "linmed_rewards") for one in clients]
            assert len(set(sums)) == 1
            # A transaction may have been committed when its process was killed before it could count.
            assert len(rewarded) - 4 <= sums[0] <= count
        started = workers(server)
        server.end(signal.SIGTERM)
        assert server.process.returncode == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in started)
        assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("workers")
    with two_workers(f"sqlite:///{folder / 'workers.db'}", folder) as server:
        yield server


def test_metrics_are_sums_over_the_workers(shared: Running) -> None:
    server = shared
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for _ in range(12)]
        create(clients[0])
        for client in clients:
            reward(client, decide(client), 1.0)
        for client in clients:
            assert counted(client, "linmed_decisions") == counted(client, "linmed_rewards") == 12
            text = client.get("/metrics").text
            assert 'linmed_requests_total{route="/v1/bandits/{name}/decide",status="200"} 12.0' in text
        until(lambda: "linmed_waiting 0.0" in clients[0].get("/metrics").text)


def test_a_port_is_shared_with_nobody_else(shared: Running, tmp_path: Path) -> None:
    port = shared.url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "linmed.cli", "serve", "--database", f"sqlite:///{tmp_path}/other.db"]
    for number in ("1", "2"):
        other = subprocess.run(
            [*command, "--port", port, "--workers", number], capture_output=True, text=True, timeout=300
        )
        assert other.returncode == 2
        assert "cannot listen" in other.stderr


def test_workers_end_with_their_parent_and_import_nothing_from_the_folder_it_is_started_in(
    sqlite: str, tmp_path: Path
) -> None:
    for name in ("starlette", "uvicorn", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\nraise SystemExit(1)\n")
    with two_workers(sqlite, tmp_path) as server:
        assert not (tmp_path / "ran").exists()
        started = workers(server)
        server.end(signal.SIGKILL)
        until(lambda: not any(alive(pid) for pid in started), PATIENCE)


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_password_is_not_left_in_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:secret%2Fword@localhost:5433/name"
    done: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *given: done.append(given))
    monkeypatch.setattr(
        sys, "orig_argv", ["python", "-m", "linmed.cli", "serve", f"--database={url}", "--port", "1"]
    )
    hide_password(url)
    [(program, words, environment)] = done
    assert program == sys.executable
    assert words[4:] == ["--database=postgresql://me@localhost:5433/name", "--port", "1"]
    assert environment["PGPASSWORD"] == "secret/word"
    for harmless in ("sqlite:///linmed.db", "postgresql://me@localhost/name", "no url"):
        hide_password(harmless)
    assert len(done) == 1


def test_no_process_shows_the_password(tmp_path: Path) -> None:
    """The database takes the connection and says nothing: there is time to look at the server."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://me:secretword@127.0.0.1:{silent.getsockname()[1]}/name"
        with subprocess.Popen(
            [sys.executable, "-m", "linmed.cli", "serve", "--database", url, "--workers", "2"],
            stderr=subprocess.PIPE,
        ) as process:
            silent.settimeout(PATIENCE)
            with silent.accept()[0]:
                shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            process.kill()
            error = process.stderr.read() if process.stderr else b""
    assert b"me@127.0.0.1" in shown
    assert b"secretword" not in shown + error
