"""Copies of a database that is being written to, and what they hold."""

import contextlib
import os
import shutil
import sqlite3
import stat
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from linmed.cli import main
from linmed.serve import database as db
from linmed.serve import engine
from linmed.serve.client import Client
from linmed.serve.database import DatabaseError, backup

from .serving import ARMS, Running, application, create, decide, reward
from .test_durability import assert_state_is_fold


def decisions_in(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM decisions")}


def test_a_copy_under_load_holds_everything_acknowledged_before_and_serves(
    sqlite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy.db"
    stop = threading.Event()
    taken: dict[str, float] = {}

    def work(url: str, number: int) -> None:
        with Client(url) as client:
            for i in range(20_000):
                decision = client.decide("b", ARMS)
                client.reward("b", decision, (i % 10) / 10)
                taken[decision.id] = (i % 10) / 10
                if stop.is_set():
                    return

    with Running(sqlite, tmp_path) as server:
        with server.client() as client:
            create(client)
        threads = [threading.Thread(target=work, args=(server.url, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(2):  # the second takes the place of the first
                while len(taken) < 20:
                    assert all(thread.is_alive() for thread in threads)
                    time.sleep(0.01)
                before = dict(taken)
                assert main(["serve", "--database", sqlite, "--backup", str(target)]) == 0
                assert before.keys() <= decisions_in(target)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    assert f"{len(decisions_in(target))} decisions" in capsys.readouterr().out.splitlines()[-1]
    assert decisions_in(target) <= decisions_in(tmp_path / "test.db")
    restored = f"sqlite:///{target}"
    with application(restored) as client:
        assert assert_state_is_fold(client, restored) >= len(before)
        for identifier, value in list(before.items())[:20]:
            assert client.get(f"/v1/bandits/b/decisions/{identifier}").json()["reward"] == value
        reward(client, decide(client), 1.0)


def test_the_file_alone_holds_everything_after_a_clean_stop(sqlite: str, tmp_path: Path) -> None:
    file = tmp_path / "test.db"
    with closing(sqlite3.connect(file)) as other:  # while somebody else has it open too
        with Running(sqlite, tmp_path) as server, server.client() as client:
            create(client)
            other.execute("SELECT count(*) FROM decisions").fetchone()
            taken = {decide(client)["decision_id"] for _ in range(10)}
        shutil.copy(file, tmp_path / "alone.db")
    assert decisions_in(tmp_path / "alone.db") == taken


def test_the_file_alone_holds_everything_soon_after_the_last_request(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CHECKPOINT", 0.1)
    with application(sqlite, staleness=0.05) as client:
        create(client)
        taken = {decide(client)["decision_id"] for _ in range(10)}
        deadline = time.monotonic() + 300
        found: set[str] = set()
        while found != taken:
            assert time.monotonic() < deadline
            shutil.copy(tmp_path / "test.db", tmp_path / "alone.db")
            with contextlib.suppress(sqlite3.Error):  # not even the tables yet
                found = decisions_in(tmp_path / "alone.db")
            time.sleep(0.05)


@pytest.fixture
def filled(sqlite: str) -> db.Database:
    with application(sqlite) as client:
        create(client)
        for _ in range(3):
            decide(client)
    return db.Database(sqlite)


@pytest.mark.unix
def test_a_copy_is_as_private_as_the_database_and_leaves_nothing_beside_it(
    filled: db.Database, tmp_path: Path
) -> None:
    os.chmod(tmp_path / "test.db", 0o600)
    (tmp_path / "copies").mkdir()
    backup(filled, tmp_path / "copies" / "copy.db")
    assert stat.S_IMODE((tmp_path / "copies" / "copy.db").stat().st_mode) == 0o600
    assert [file.name for file in (tmp_path / "copies").iterdir()] == ["copy.db"]


@pytest.mark.unix
def test_a_copy_takes_the_place_of_nothing_but_an_older_copy(filled: db.Database, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    backup(filled, target)
    assert "3 decisions" in backup(filled, target)
    with closing(sqlite3.connect(target)) as newer, newer:
        newer.execute("UPDATE decisions SET number = 10 WHERE number = 3")
    with pytest.raises(DatabaseError, match="no older copy of"):
        backup(filled, target)
    with closing(sqlite3.connect(target)) as foreign, foreign:
        foreign.execute("UPDATE bandits SET name = 'another'")
    with pytest.raises(DatabaseError, match="no older copy of"):
        backup(filled, target)
    for content in (b"", b"notes", b"SQLite format 3\0" + bytes(100)):
        target.write_bytes(content)
        with pytest.raises(DatabaseError, match="no older copy of"):
            backup(filled, target)
        assert target.read_bytes() == content
    with pytest.raises(DatabaseError, match="in use"):
        backup(filled, tmp_path / "test.db")
    with pytest.raises(DatabaseError, match="cannot copy"):
        backup(filled, tmp_path / "no such folder" / "copy.db")
    os.mkfifo(tmp_path / "pipe")  # it would be waited for
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("pipe", "link", "."):
        with pytest.raises(DatabaseError, match="is no file"):
            backup(filled, tmp_path / name)
    other = tmp_path / "served.db"
    with application(f"sqlite:///{other}"), pytest.raises(DatabaseError, match="in use"):
        backup(filled, other)


def test_what_cannot_be_copied_is_named(
    sqlite: str, postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(url: str) -> str:
        assert main(["serve", "--database", url, "--backup", str(tmp_path / "copy.db")]) == 2
        return capsys.readouterr().err

    assert "there is no database" in refused(sqlite)
    assert not (tmp_path / "test.db").exists()
    assert "pg_dump --format=custom" in refused(postgres)
    sqlite3.connect(tmp_path / "test.db").close()
    assert "not a database of linmed" in refused(sqlite)


def test_a_copy_is_made_of_another_schema_as_it_is(filled: db.Database, tmp_path: Path) -> None:
    with closing(sqlite3.connect(filled.file)) as connection, connection:
        connection.execute("UPDATE linmed_schema SET version = 1")
    assert "3 decisions" in backup(filled, tmp_path / "copy.db")
    for file in ("test.db", "copy.db"):
        with closing(sqlite3.connect(tmp_path / file)) as connection:
            assert connection.execute("SELECT version FROM linmed_schema").fetchone() == (1,)
