"""A bandit's state from the log: the newest readable snapshot, then the rewards since."""

import logging
import zipfile
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Row

from linmed.serve import store
from linmed.serve.bandit import Bandit

logger = logging.getLogger("linmed.serve")


def load(connection: Connection, row: Row[Any]) -> Bandit:
    """The bandit of this row of `bandits`, with the state that the log says."""
    bandit = store.as_bandit(row)
    for snapshot in store.newest_snapshots(connection, bandit):
        try:
            bandit.load(snapshot.state, snapshot.seq)
            break
        except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
            logger.warning("snapshot %d of bandit %s is unreadable (%s)", snapshot.seq, bandit.name, error)
    for rows in store.bandit_rewards(connection, bandit.id, bandit.seq):
        store.fold(bandit, rows)
    warm_up(bandit)
    return bandit


def fold_log(connection: Connection, bandit: Bandit, count: int | None = None) -> Bandit:
    """`bandit`, fresh from `store.as_bandit`, after the first `count` rewards of the log."""
    for rows in store.bandit_rewards(connection, bandit.id, 0, count):
        store.fold(bandit, rows)
    return bandit


def warm_up(bandit: Bandit) -> None:
    """Compile what a decision and a reward need, on a state of no consequence."""
    state, policy = bandit.policy.start(1, bandit.dim), bandit.policy
    few = np.eye(max(2, bandit.dim))[:2, : bandit.dim].copy()
    arms = (bandit.catalogue.features if bandit.keeps and bandit.catalogue else few)[None]
    choice = policy.decide(state, arms, np.full((1, policy.noise_size(bandit.dim)), 0.5))
    policy.learn(state, choice.features, np.zeros(1), np.zeros(1, dtype=np.int64))
