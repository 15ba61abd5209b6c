"""What a bandit believes of its catalogue: every arm's mean with its interval, and how often it is played."""

from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from linmed import validation
from linmed.features import Category, Number
from linmed.features.features import Side
from linmed.serve.bandit import Bandit
from linmed.serve.database import decisions, unpack
from linmed.serve.item_table import Catalogue
from linmed.validation import Floats, Ints

RECENT = 2000
"""Decisions behind the shares."""
CONTEXTS = 200
"""Decisions behind the mean context."""
SHOWN = 100
"""Arms that are shown, those with the largest estimates."""
PART = 2**14
"""Items whose arms are made at once."""


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
    return bandit.joining.products(bandit.catalogue.width).context_width


def outlook(bandit: Bandit, state: Any, context: Floats | None, shares: dict[str, float]) -> dict[str, Any]:
    """Every arm's estimate, at a context where arms depend on one.

    All maps are affine in the context: the estimate at the mean context is the mean of the estimates.
    """
    needed, fields = context_size(bandit), bandit.features
    found: dict[str, Any] = {
        "policy": bandit.policy.name,
        "forgets": bandit.policy.capabilities.drift,
        "rewards": int(state.count[0]),
        "count": 0,
        "context_size": needed,
        "context_fields": None if fields is None else sorted(fields.context_side.fields),
        "context": None if context is None or not needed else context.tolist(),
        "context_described": None
        if context is None or not needed or fields is None
        else described(fields.context_side, context),
        "reward_range": bandit.reward_range,
        "arms": [],
    }
    if bandit.catalogue is None:
        return found
    catalogue = bandit.catalogue
    found["count"] = catalogue.count
    user = np.empty(0) if context is None else context
    estimates, predicted = None, None
    if needed == 0 or context is not None:
        best = largest(catalogue, bandit, state, user)
        vectors = bandit.joining.join(catalogue.matrix[best], user)
        predicted = bandit.policy.predict(state, vectors)
        estimates = bandit.policy.expected(state, vectors) if predicted is None else predicted.mean
    else:
        best = catalogue.order[:SHOWN]
    for rank, row in enumerate(best.tolist()):
        name = catalogue.id(row)
        found["arms"].append(
            {
                "id": name,
                "place": int(catalogue.ranks[row]),
                "features": catalogue.matrix[row].tolist(),
                "described": None if fields is None else described(fields.item_side, catalogue.matrix[row]),
                "estimate": None if estimates is None else float(estimates[rank]),
                "lower": None if predicted is None else float(predicted.lower[rank]),
                "upper": None if predicted is None else float(predicted.upper[rank]),
                "share": shares.get(name, 0.0),
            }
        )
    return found


def described(side: Side, row: Floats) -> list[str]:
    """The numbers of a row by the names of their fields, in the units in which they came.

    Of categories only those that are not 0, with a number where that is not 1 (in a mean of several rows).
    """
    found, at = [], 0
    for column in side.columns:
        for label, value in zip(column.labels, row[at : at + column.width].tolist(), strict=True):
            if isinstance(column, Number) and column.line is not None:
                centre, width = column.line
                found.append(f"{label} {centre + width * value:.4g}")
            elif not isinstance(column, Category):
                found.append(f"{label} {value:.4g}")
            elif value:
                found.append(label if value == 1.0 else f"{label} {value:.2g}")
        at += column.width
    return found


def largest(catalogue: Catalogue, bandit: Bandit, state: Any, context: Floats) -> Ints:
    """The rows of the items with the largest estimates, the largest first; of equal ones the first offered.

    A part of the items at a time: of a large catalogue all arms at once would be as large again.
    """
    scores = np.full(catalogue.used, -np.inf)
    for start in range(0, catalogue.used, PART):
        part = slice(start, start + PART)
        vectors = validation.for_kernels(bandit.joining.join(catalogue.matrix[part], context))
        scores[part] = np.where(catalogue.live[part], bandit.policy.expected(state, vectors), -np.inf)
    if catalogue.count > SHOWN:
        least = np.partition(scores, -SHOWN)[-SHOWN]
        rows = np.flatnonzero(scores >= least)
    else:
        rows = catalogue.order
    return rows[np.lexsort((catalogue.ranks[rows], -scores[rows]))][:SHOWN]
