"""Snapshots only shorten the way: whatever becomes of them, the log has everything."""

import io
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed import LinMED
from linmed.serve import database as db
from linmed.serve import memory, store
from linmed.serve.bandit import Bandit

from .serving import application, create, decide, reward


@pytest.fixture
def written(sqlite: str) -> str:
    """A database with two snapshots of bandit b, after 4 and 8 rewards, and one of bandit c."""
    with application(sqlite, snapshot_every=4) as client:
        for name, rounds in (("b", 8), ("c", 4)):
            create(client, name)
            for i in range(rounds):
                reward(client, decide(client, name), i / 8, name)
    return sqlite


def change(url: str, *statements: Any) -> None:
    opened = db.Database(url)
    with opened.writer.begin() as connection:
        for statement in statements:
            connection.execute(statement)
    opened.close()


def numbers(url: str) -> list[tuple[int, int, int]]:
    """Which snapshots there are: bandit, version, seq."""
    opened = db.Database(url)
    with opened.reader.begin() as connection:
        found = connection.execute(sa.select(*db.snapshots.c["bandit", "version", "seq"])).all()
    opened.close()
    return sorted(tuple(row) for row in found)


def damages(state: bytes, digest: bytes) -> list[tuple[bytes, bytes]]:
    """The ways in which a snapshot's state and digest can come to harm."""
    rng = np.random.default_rng(0)
    found: list[tuple[bytes, bytes]] = []
    for bit in sorted(rng.choice(8 * len(state), size=100, replace=False)):
        flipped = bytearray(state)
        flipped[bit // 8] ^= 1 << bit % 8
        found.append((bytes(flipped), digest))
    cuts = rng.integers(0, len(state), size=20)
    found += [(state[:length], digest) for length in (0, 1, len(state) - 1, *cuts)]
    found += [(state, digest[:-1]), (state, bytes(32)), (state, b""), (state + b"\0", digest)]
    return found


def test_rewards_that_a_bandit_has_are_not_folded_again(written: str) -> None:
    opened = db.Database(written)
    with opened.reader.connect() as connection:
        row = store.the_bandit(connection, "b")
        whole, _ = memory.recovered(connection, row)
        rewards = [one for part in store.bandit_rewards(connection, row.id, 0) for one in part]
        parts = store.as_bandit(connection, row)
    opened.close()
    for some in (rewards[:5], rewards[:3], rewards[2:], rewards):
        store.fold(parts, some)
    assert (parts.seq, parts.count) == (whole.seq, 8)
    for name, array in whole.state.arrays().items():
        np.testing.assert_array_equal(parts.state.arrays()[name], array)


def test_any_damage_of_a_snapshot_is_passed_over_and_named(
    written: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened = db.Database(written)
    with opened.writer.connect() as connection:
        row = store.the_bandit(connection, "b")
        newest = store.newest_snapshots(connection, row.id, row.version)[0]
        right, unsound = memory.recovered(connection, row)
        assert (right.count, unsound) == (8, [])
        cases = damages(newest.state, newest.digest)
        for state, digest in cases:
            own = (db.snapshots.c.bandit == row.id) & (db.snapshots.c.seq == newest.seq)
            connection.execute(sa.update(db.snapshots).where(own).values(state=state, digest=digest))
            found, unsound = memory.recovered(connection, row)
            assert [one.seq for one in unsound] == [newest.seq]
            for name, array in right.state.arrays().items():
                np.testing.assert_array_equal(found.state.arrays()[name], array)
    opened.close()
    named = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(named) == len(cases)
    assert all("snapshot 8 of bandit b is passed over" in text for text in named)


def test_a_snapshot_that_cannot_be_read_is_passed_over_though_its_digest_is_right(written: str) -> None:
    """Another release may have written it."""
    opened = db.Database(written)
    with opened.writer.connect() as connection:
        row = store.the_bandit(connection, "b")
        for state in (b"", b"PK\x03\x04cut", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'shape': (9**99,)}"):
            digest = store.snapshot_digest(row.id, row.version, 8, state)
            changed = sa.update(db.snapshots).where(db.snapshots.c.seq == 8)
            connection.execute(changed.values(state=state, digest=digest))
            found, unsound = memory.recovered(connection, row)
            assert (found.count, len(unsound)) == (8, 1)
    opened.close()


def swap(url: str) -> None:
    """The states of b's two snapshots, each with its digest, change places."""
    opened = db.Database(url)
    with opened.writer.begin() as connection:
        one, two = store.newest_snapshots(connection, 1, 1)
        for to, of in ((one, two), (two, one)):
            place = (db.snapshots.c.bandit == 1) & (db.snapshots.c.seq == to.seq)
            connection.execute(sa.update(db.snapshots).where(place).values(state=of.state, digest=of.digest))
    opened.close()


def ahead(url: str) -> None:
    """The log ends before its snapshots, as where tables were restored from different moments."""
    change(url, sa.delete(db.rewards).where(db.rewards.c.seq > 3))


def of_a_later_version(url: str) -> None:
    """The policy's latest change is not in the restored log."""
    opened = db.Database(url)
    with opened.writer.begin() as connection:
        old = store.newest_snapshots(connection, 1, 1)[0]
        connection.execute(sa.delete(db.snapshots).where(db.snapshots.c.bandit == 1))
        store.add_snapshot(connection, 1, 2, old.seq, old.state)
    opened.close()


@pytest.mark.parametrize(("harm", "count"), [(swap, 8), (ahead, 3), (of_a_later_version, 8)])
def test_an_unsound_snapshot_is_deleted_and_the_fold_goes_on(
    written: str, harm: Callable[[str], None], count: int
) -> None:
    harm(written)
    with application(written) as client:
        assert client.get("/v1/bandits/b/state").json()["count"] == count
        reward(client, decide(client), 0.5)
        assert client.get("/v1/bandits/b/state").json()["count"] == count + 1
    assert [seq for bandit, version, seq in numbers(written) if bandit == 1] == [
        13 if harm is not ahead else 4
    ]
    with application(written) as client:
        assert client.get("/v1/bandits/b/state").json()["count"] == count + 1


def test_a_bandit_that_cannot_be_loaded_leaves_the_others_served_and_comes_back(
    written: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory, "RETRY", 0.5)
    config = sa.select(db.policies.c.config).where(db.policies.c.bandit == 1)
    opened = db.Database(written)
    with opened.reader.begin() as connection:
        sound = connection.execute(config).scalar_one()
    opened.close()
    own = sa.update(db.policies).where(db.policies.c.bandit == 1)
    change(written, own.values(config='{"policy": "Nonsense"}'))
    with application(written) as client:
        ready = until_answered(client, 200)
        assert ready.json() == {"status": "ready", "broken": ["b"]}
        reward(client, decide(client, "c"), 1.0, "c")
        refused = client.post("/v1/bandits/b/decide", json={"arms": [[1.0, 0.0]]})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "'b' cannot be loaded" in refused.json()["error"]["message"]
        assert any("bandit b cannot be loaded" in one.getMessage() for one in caplog.records)
        change(written, own.values(config=sound))
        deadline = time.monotonic() + 300
        while client.get("/v1/bandits/b/state").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        decide(client)
        assert client.get("/readyz").json() == {"status": "ready"}


def until_answered(client: httpx.Client, status: int) -> httpx.Response:
    """The answer of /readyz when it has this status."""
    deadline = time.monotonic() + 300
    while (answer := client.get("/readyz")).status_code != status:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.02)
    return answer


def test_a_server_none_of_whose_bandits_can_be_loaded_is_not_ready(written: str) -> None:
    change(written, sa.update(db.policies).values(config="no JSON"))
    with application(written) as client:
        deadline = time.monotonic() + 300
        while client.get("/readyz").json() != {"status": "not ready", "broken": ["b", "c"]}:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert client.get("/healthz").status_code == 200


def test_trouble_of_the_database_while_bandits_are_loaded_is_waited_out(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    recovered, tried = memory.recovered, []

    def troubled(connection: Any, row: Any, *catalogue: Any) -> Any:
        tried.append(row.name)
        if not over.is_set():
            raise sa.exc.OperationalError("SELECT", {}, RuntimeError("disk I/O error"))
        return recovered(connection, row, *catalogue)

    monkeypatch.setattr(memory, "recovered", troubled)
    with application(written, staleness=0.05) as client:
        deadline = time.monotonic() + 300
        while len(tried) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert client.get("/readyz").status_code == 503
        over.set()
        assert until_answered(client, 200).json() == {"status": "ready"}
        decide(client)


def test_a_state_that_cannot_take_a_reward_is_made_anew_and_the_others_are_served(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold, failed = Bandit.fold, []

    def fails_once(self: Bandit, *rewards: Any) -> None:
        fold(self, *rewards)  # it has changed the state by then
        if not failed:
            failed.append(self.name)
            raise RuntimeError("broken")

    with application(written) as client:
        until_answered(client, 200)
        monkeypatch.setattr(Bandit, "fold", fails_once)
        reward(client, decide(client), 0.5)  # it is in the log
        assert failed == ["b"]
        assert client.get("/readyz").json() == {"status": "ready", "broken": ["b"]}
        reward(client, decide(client, "c"), 0.5, "c")
        assert client.get("/v1/bandits/b/state").json()["count"] == 9
        assert client.get("/v1/bandits/c/state").json()["count"] == 5
        assert client.get("/readyz").json() == {"status": "ready"}


def test_a_snapshot_of_a_state_with_other_arrays_is_passed_over(written: str) -> None:
    """As one of an earlier release is: the log has everything."""
    with application(written) as client:
        before = client.get("/v1/bandits/b/state").json()
    opened = db.Database(written)
    bandit = Bandit(id=1, name="b", dim=2, policy=LinMED(sigma=0.5), catalogue=None)
    arrays = {name: array for name, array in bandit.state.arrays().items() if name != "rss"}
    file = io.BytesIO()
    np.savez(file, **arrays)
    content = file.getvalue()
    with opened.writer.begin() as connection:
        for row in connection.execute(sa.select(db.snapshots)).all():
            place = row.bandit, row.version, row.seq
            same = db.snapshots.c["bandit", "version", "seq"]
            digest = store.snapshot_digest(*place, content)
            here = sa.and_(*(column == value for column, value in zip(same, place, strict=True)))
            connection.execute(sa.update(db.snapshots).where(here).values(state=content, digest=digest))
    opened.close()
    with application(written) as client:
        assert client.get("/v1/bandits/b/state").json() == before
