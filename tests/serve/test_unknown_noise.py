"""A bandit that is told neither noise nor prior: folded from the log like any other, to the last bit."""

import io
from typing import Any

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from linmed import Agent, LinMED
from linmed.serve import database as db
from linmed.serve import store
from linmed.serve.bandit import Bandit

from .serving import ARMS, application, create, decide, reward

UNTOLD = {"policy": "LinMED", "sigma": "unknown", "ridge": "learned"}


def play(client: httpx.Client, rounds: int) -> list[tuple[list[float], float]]:
    """What was learned from: the arms played and their rewards."""
    seen = []
    for i in range(rounds):
        decision = decide(client)
        value = (i % 5) / 4
        reward(client, decision, value)
        seen.append((ARMS[decision["arm"]], value))
    return seen


def state_of(client: httpx.Client) -> dict[str, Any]:
    answer = client.get("/v1/bandits/b/state")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("told", [UNTOLD, {"policy": "LinMED", "sigma": "unknown", "norm_bound": "unknown"}])
def test_it_is_folded_to_the_state_of_an_agent_and_survives_a_restart(sqlite: str, told: Any) -> None:
    with application(sqlite, snapshot_every=7) as client:
        create(client, policy=told)
        seen = play(client, 20)
        before = state_of(client)
    with application(sqlite, snapshot_every=7) as client:
        after = state_of(client)
    assert before["arrays"] == after["arrays"]
    agent = Agent(LinMED(**{name: value for name, value in told.items() if name != "policy"}), dim=2, seed=0)
    for features, value in seen:
        agent.observe(features, value)
    assert after["theta"] == agent.theta.tolist()
    for name, array in agent.state.arrays().items():
        np.testing.assert_array_equal(after["arrays"][name], array, err_msg=name)


def test_a_policy_may_be_exchanged_for_one_that_learns_its_ridge(sqlite: str) -> None:
    with application(sqlite) as client:
        create(client)
        play(client, 6)
        changed = client.patch("/v1/bandits/b", json={"policy": UNTOLD})
        assert changed.status_code == 200, changed.text
        assert decide(client)["policy_version"] == 2
        assert state_of(client)["count"] == 6


def test_a_snapshot_of_a_state_with_other_arrays_is_passed_over(sqlite: str) -> None:
    """As one of an earlier release is: the log has everything."""
    with application(sqlite, snapshot_every=4) as client:
        create(client)
        play(client, 8)
        before = state_of(client)
    opened = db.Database(sqlite)
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
    with application(sqlite) as client:
        assert state_of(client)["arrays"] == before["arrays"]
