"""Several servers on one PostgreSQL."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from linmed.serve import store
from linmed.serve.database import Database, rewards
from linmed.serve.engine import Decide, Engine, Group, Reward
from linmed.serve.reports import Reports
from linmed.serve.store import add_bandit

from .serving import ARMS, PATIENCE, SETTINGS, application, create, decide, reward, row, until


@pytest.mark.identity
def test_two_servers_fold_each_others_rewards_to_the_same_bits(postgres: str) -> None:
    with application(postgres, staleness=0.1) as one, application(postgres, staleness=0.1) as two:
        create(one)
        with ThreadPoolExecutor(8) as pool:

            def rounds(seed: int) -> None:
                rng = np.random.default_rng(seed)
                for _ in range(15):
                    decision = decide((one, two)[seed % 2])
                    reward((two, one)[rng.integers(2)], decision, float(rng.random()))

            list(pool.map(rounds, range(8)))

        def state(client: Any) -> Any:
            return client.get("/v1/bandits/b/state").json()

        until(lambda: state(one)["count"] == state(two)["count"] == 120)
        assert state(one) == state(two)  # every array, to the last bit


def test_a_change_made_on_one_server_reaches_the_other(postgres: str) -> None:
    with application(postgres, staleness=0.1) as one, application(postgres, staleness=0.1) as two:
        create(one)
        reward(two, decide(two), 1.0)
        one.patch("/v1/bandits/b", json={"policy": {"policy": "Uniform"}})
        until(lambda: decide(two)["policy_version"] == 2)
        one.delete("/v1/bandits/b")
        until(lambda: two.post("/v1/bandits/b/decide", json={"arms": ARMS}).status_code == 409)


@pytest.mark.identity
def test_servers_judge_one_log_alike_whatever_they_remember(postgres: str) -> None:
    with application(postgres) as one, application(postgres) as two:
        create(one, reward_range=[0.0, 1.0])
        found = [decide((one, two)[i % 2]) for i in range(20)]
        for i in (*range(4), *range(8, 18)):
            reward((one, two)[i // 2 % 2], found[i], float(i % 3 == 0))

        def judged(client: Any) -> Any:
            return client.post("/v1/bandits/b/evaluate", json={"targets": ["greedy", "uniform"]}).json()

        before = judged(one)
        assert (before["trained_on"], before["decisions"], before["waiting"], before["judged"]) == (
            4,
            12,
            2,
            10,
        )
        for i in range(4, 8):
            reward(two, found[i], 1.0)
        after = judged(two)
        assert (after["trained_on"], after["judged"]) == (8, 10)
        assert judged(one) == after  # which went on from what it had learned


def test_one_key_on_two_servers_at_once_is_one_decision(postgres: str) -> None:
    with application(postgres) as one, application(postgres) as two:
        create(one)
        decide(two)
        start = threading.Barrier(8)

        def ask(i: int) -> set[str]:
            found = set()
            for k in range(10):
                start.wait()
                found.add((k, decide((one, two)[i % 2], arms=ARMS, key=f"k{k}")["decision_id"]))
            return found

        with ThreadPoolExecutor(8) as pool:
            assert len(set.union(*pool.map(ask, range(8)))) == 10
        assert one.get("/v1/bandits/b/statistics").json()["decisions"] == 11


def test_a_reward_that_commits_later_never_has_an_earlier_number(postgres: str) -> None:
    """A server that has read up to number n must not miss a reward numbered before but visible after."""
    from linmed.policies import LinMED

    slow, fast = Database(postgres), Database(postgres)
    slow.open()
    with slow.writer.begin() as connection:
        add_bandit(connection, "b", 2, SETTINGS, LinMED())
    with slow.writer.begin() as connection:
        Group(slow, 0, [Decide([row("x"), row("y")])]).write(connection)
    finished = threading.Event()

    def write_fast() -> None:
        with fast.writer.begin() as connection:
            Group(fast, 0, [Reward(1, [("y", 1.0, None)])]).write(connection)
        finished.set()

    with slow.writer.begin() as connection:
        Group(slow, 0, [Reward(1, [("x", 1.0, None)])]).write(connection)  # numbered, not yet committed
        thread = threading.Thread(target=write_fast)
        thread.start()
        assert not finished.wait(0.5)  # the second server waits for the first
        with fast.reader.begin() as other:
            assert store.rewards_after(other, 0) == []
    thread.join()
    with fast.reader.begin() as connection:
        rows = store.rewards_after(connection, 0)
        number = connection.execute(sa.select(sa.func.count()).select_from(rewards)).scalar_one()
    assert ([one.seq for one in rows], number) == ([1, 2], 2)
    slow.close()
    fast.close()


def test_an_engine_passes_every_reward_on_exactly_once_and_in_order(postgres: str) -> None:
    from linmed.policies import LinMED

    databases = [Database(postgres) for _ in range(3)]
    databases[0].open()
    with databases[0].writer.begin() as connection:
        add_bandit(connection, "b", 2, SETTINGS, LinMED())
    engines = [Engine(database, staleness=0.05) for database in databases]
    seen: list[list[int]] = [[] for _ in engines]
    for engine, numbers in zip(engines, seen, strict=True):
        engine.fold = lambda rows, numbers=numbers: numbers.extend(one.seq for one in rows)
        engine.start()
    for i in range(60):
        job = Decide([row(f"d{i}")])
        engines[i % 3].submit(job)
        job.answer.result(300)
        later = Reward(1, [(f"d{i}", float(i), None)])
        engines[(i * 7) % 3].submit(later)
        if i % 4 == 0:
            later.answer.result(300)
    until(lambda: all(len(numbers) >= 60 for numbers in seen))
    for engine in engines:
        engine.stop(PATIENCE)
    assert seen == [list(range(1, 61))] * 3
    for database in databases:
        database.close()


def test_a_report_may_think_for_longer_than_others_may_hold_a_transaction(postgres: str) -> None:
    opened = Database(postgres)
    limit = "SHOW idle_in_transaction_session_timeout"
    with opened.reader.begin() as connection:
        assert connection.exec_driver_sql(limit).scalar_one() == "30s"
    with Reports(opened).reading() as connection:
        assert connection.exec_driver_sql(limit).scalar_one() == "0"
    with opened.reader.begin() as connection:  # the same connection, afterwards
        assert connection.exec_driver_sql(limit).scalar_one() == "30s"
    opened.close()
