"""What a bandit believes of its catalogue: every arm's mean with its interval, and how often it is played."""

from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from linmed.checks import Floats
from linmed.features import join
from linmed.policies import Forgetful
from linmed.serve.bandit import Bandit
from linmed.serve.database import decisions
from linmed.serve.numbers import unpack

RECENT = 2000
"""Decisions behind the shares."""
CONTEXTS = 200
"""Decisions behind the mean context."""
SHOWN = 100
"""Arms that are shown, those with the largest estimates."""


def recent_arms(connection: Connection, bandit: int) -> dict[str, float]:
    """How often each item of the catalogue was played in the recent decisions."""
    newest = (
        sa.select(decisions.c.arm_id)
        .where(decisions.c.bandit == bandit)
        .order_by(decisions.c.number.desc())
        .limit(RECENT)
        .subquery()
    )
    rows = connection.execute(sa.select(newest.c.arm_id, sa.func.count()).group_by(newest.c.arm_id)).all()
    total = sum(count for _, count in rows)
    return {name: count / total for name, count in rows if name is not None}


def mean_context(connection: Connection, bandit: Bandit) -> Floats | None:
    """The mean of the recent contexts; None where there are none."""
    rows = connection.execute(
        sa.select(decisions.c.context)
        .where((decisions.c.bandit == bandit.id) & decisions.c.context.is_not(None))
        .order_by(decisions.c.number.desc())
        .limit(CONTEXTS)
    ).scalars()
    found = [one for one in map(unpack, rows) if one.size == context_size(bandit)]
    return np.mean(found, axis=0) if found else None


def context_size(bandit: Bandit) -> int:
    """How many numbers a context has."""
    if bandit.catalogue is None:
        return 0
    width: int = bandit.catalogue.features.shape[1]
    return bandit.dim // width if bandit.map == "outer" else bandit.dim - width


def outlook(bandit: Bandit, state: Any, context: Floats | None, shares: dict[str, float]) -> dict[str, Any]:
    """Every arm's estimate, at a context where arms depend on one.

    Both maps are affine in the context: the estimate at the mean context is the mean of the estimates.
    """
    needed = context_size(bandit)
    found: dict[str, Any] = {
        "policy": bandit.policy.name,
        "forgets": isinstance(bandit.policy, Forgetful),
        "rewards": int(state.count[0]),
        "count": 0,
        "context_size": needed,
        "context": None if context is None or not needed else context.tolist(),
        "reward_range": bandit.reward_range,
        "arms": [],
    }
    if bandit.catalogue is None:
        return found
    ids, features = bandit.catalogue.ids, bandit.catalogue.features
    found["count"] = len(ids)
    order: Any = np.arange(len(ids))
    estimates, predicted = None, None
    if needed == 0 or context is not None:
        vectors = join(features, np.empty(0) if context is None else context, bandit.map)
        scores = bandit.policy.expected(state, vectors)
        order = np.argsort(-scores, kind="stable")
        predicted = bandit.policy.predict(state, vectors[order[:SHOWN]])
        estimates = scores[order[:SHOWN]] if predicted is None else predicted.mean
    for rank, place in enumerate(order[:SHOWN]):
        found["arms"].append(
            {
                "id": ids[place],
                "place": int(place),
                "features": features[place].tolist(),
                "estimate": None if estimates is None else float(estimates[rank]),
                "lower": None if predicted is None else float(predicted.lower[rank]),
                "upper": None if predicted is None else float(predicted.upper[rank]),
                "share": shares.get(ids[place], 0.0),
            }
        )
    return found
