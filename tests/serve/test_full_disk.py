"""A disk without room: not ready while it lasts, and ready by itself when there is room again."""

import time
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from linmed.serve import database as db

from .serving import Running, create, decide

WIDE = {"arms": [[float(i), 1.0] for i in range(200)]}


def until(client: httpx.Client, status: int) -> None:
    deadline = time.monotonic() + 300
    while client.get("/readyz").status_code != status:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.linux
def test_a_server_whose_files_cannot_grow_is_not_ready_until_they_can(sqlite: str, tmp_path: Path) -> None:
    import resource  # not on Windows

    with Running(sqlite, tmp_path) as server, server.client() as client:
        create(client)
        decide(client)
        until(client, 200)
        size = max(file.stat().st_size for file in tmp_path.glob("test.db*"))
        no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        taken = 1
        for _ in range(500):
            answer = client.post("/v1/bandits/b/decide", json=WIDE)
            if answer.status_code != 200:
                break
            taken += 1
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        for _ in range(3):
            assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/bandits/b/statistics").json()["decisions"] == taken
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, no_limit)
        until(client, 200)
        decide(client, **WIDE)
        assert client.get("/v1/bandits/b/statistics").json()["decisions"] == taken + 1


def test_too_little_free_space_is_not_ready(app: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(app)
    until(app, 200)
    monkeypatch.setattr(db, "ROOM", 2**62)
    assert app.get("/readyz").status_code == 503
    monkeypatch.undo()
    assert app.get("/readyz").status_code == 200


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_probe_leaves_nothing_behind(backend: str, request: pytest.FixtureRequest) -> None:
    opened = db.Database(request.getfixturevalue(backend))
    opened.open()
    with opened.reader.begin() as connection:
        before = sa.inspect(connection).get_table_names()
    for _ in range(2):
        opened.probe()
    with opened.reader.begin() as connection:
        assert sa.inspect(connection).get_table_names() == before
    opened.close()


def test_a_probe_finds_out_that_a_database_cannot_grow(sqlite: str) -> None:
    opened = db.Database(sqlite)
    opened.open()
    with opened.writer.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 8}")
    with pytest.raises(sa.exc.OperationalError, match="full"):
        opened.probe()
    with opened.writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    opened.probe()
    opened.close()
