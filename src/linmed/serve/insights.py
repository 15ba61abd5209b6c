"""Say what a bandit knows: every item's estimate, which can still be the best, whether the world has changed.

The answers are those of `linmed.insight`, by the ids of the catalogue."""

from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sa
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection

from linmed import validation
from linmed.features import Category, Number
from linmed.features.features import Side
from linmed.insight.best_arm import DELTA, look, looker
from linmed.insight.drift import drift_of
from linmed.serve.bandit import Bandit, few
from linmed.serve.database import decisions, unpack
from linmed.serve.encoding import from_catalogue
from linmed.serve.errors import Refused, refusing
from linmed.serve.items import MOST_AT_ONCE, Catalogue
from linmed.serve.schemas import ARMS, ArmId, Arms, Context, example
from linmed.serve.server import Server
from linmed.validation import BadValue, Floats, Ints

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


MOST_WORK = 1e10
"""K·d² that one request may ask for, some ten seconds."""

Delta = Field(default=DELTA, gt=0.0, lt=1.0, description="How often a verdict may be wrong.")
Epsilon = Field(default=0.0, ge=0.0, le=1e100, description="How much worse than the best is good enough.")


class VerdictQuery(BaseModel):
    """What may stand behind the question mark."""

    model_config = ConfigDict(extra="forbid")
    delta: float = Delta
    epsilon: float = Epsilon


class VerdictRequest(BaseModel):
    """Which of these arms is the best? By features, or items of the catalogue: those in `arm_ids`, or all."""

    model_config = example({"arms": ARMS, "delta": 0.05})
    arms: Arms | None = None
    arm_ids: list[ArmId] | None = Field(
        default=None, min_length=1, description="Ids in the catalogue; or, with `arms`, names for them."
    )
    context: Context | None = Field(default=None, description="Joined to the catalogue's items.")
    delta: float = Delta
    epsilon: float = Epsilon


class JudgedArm(BaseModel):
    """What is known of an arm."""

    id: str
    estimate: float
    behind: float = Field(description="How much less than the best it pays, as estimated.")
    lower: float | None = Field(description="The least that `behind` can be.")
    upper: float | None = Field(description="The most that it can be.")
    possible: bool = Field(description="Whether it can still be the best.")


class VerdictView(BaseModel):
    """Which arms can still be the best, and whether that is decided."""

    sentence: str
    best: str = Field(description="The arm with the largest estimate.")
    decided: bool = Field(description="Whether it is the best, or no more than epsilon worse.")
    possible: int = Field(description="How many can still be the best.")
    count: int = Field(description="How many there are.")
    margin: float | None = Field(
        description="How much better than `best` another arm can be, at most; null while that is unbounded, "
        "or if there is no other."
    )
    delta: float
    epsilon: float
    rewards: int
    proved: bool
    doubt: str | None = Field(description="Why it is no proof.")
    assumes: str
    context: list[float] | None = Field(description="For which context, where items depend on one.")
    candidates: list[str] = Field(description=f"The likeliest {SHOWN} of those that can still be the best.")
    arms: list[JudgedArm] = Field(description=f"The {SHOWN} with the largest estimates.")


async def catalogue_verdict(server: Server, name: str, wanted: VerdictQuery) -> Any:
    """Which items of the catalogue can still be the best? One may ask as often as one likes.

    Where items are multiplied with a context, this is about the mean of the recent ones.
    """
    bandit = await server.bandit(name)

    def judged(connection: Connection) -> tuple[Floats, tuple[str, ...], Floats]:
        needed = context_size(bandit)
        if bandit.catalogue is None:
            raise Refused("invalid", f"bandit {name!r} has no catalogue: POST the arms to be compared")
        if bandit.catalogue.count > MOST_AT_ONCE:
            text = f"{bandit.catalogue.count} items are too many at once: POST the arm_ids of at most"
            raise Refused("invalid", f"{text} {server.settings.max_arms}")
        context = mean_context(connection, bandit) if needed else np.empty(0)
        if context is None and bandit.joining.separate(bandit.catalogue.width):
            context = np.zeros(needed)  # appended to every item alike, it makes none of them better
        if context is None:
            raise Refused("invalid", "no context has come yet: POST one")
        return bandit.joining.join(bandit.catalogue.features, context), bandit.catalogue.names, context

    return await verdict(server, bandit, wanted, judged)


async def given_verdict(server: Server, name: str, wanted: VerdictRequest) -> Any:
    """The same for arms given by their features, for some items, or for another context."""
    bandit, most = await server.bandit(name), server.settings.max_arms

    def judged(connection: Connection) -> tuple[Floats, tuple[str, ...], Floats | None]:
        offer = bandit.offer(wanted.arms, wanted.arm_ids, wanted.context, most)
        if offer.vectors is None:
            assert offer.catalogue is not None
            few("arm_ids", offer.catalogue.count, most)
            offer = from_catalogue(offer.catalogue, None, wanted.context, bandit.joining)
        assert offer.vectors is not None
        return offer.vectors, offer.ids or tuple(map(str, range(len(offer.vectors)))), offer.context

    return await verdict(server, bandit, wanted, judged)


async def verdict(
    server: Server, bandit: Bandit, wanted: VerdictQuery | VerdictRequest, judged: Callable[..., Any]
) -> dict[str, Any]:
    """The verdict on what `judged` gives, vectors (K,d), their ids and a context, as the API shows it."""
    state = bandit.state.copy()  # as it is now; the work is done beside the event loop

    def found(connection: Connection) -> dict[str, Any]:
        with refusing():
            return answer(bandit, state, wanted, *judged(connection))

    return await server.reading(found)


def answer(
    bandit: Bandit,
    state: Any,
    wanted: VerdictQuery | VerdictRequest,
    vectors: Floats,
    ids: tuple[str, ...],
    context: Floats | None,
) -> dict[str, Any]:
    """The verdict on vectors (K,d), called `ids`, as the API shows it."""
    by = looker(bandit.policy, wanted.delta)
    count, dim = vectors.shape
    if by.capabilities.per_item:  # every arm is a direction of its own
        dim = count
    if count * dim * dim > MOST_WORK:
        raise BadValue("arm_ids", f"arm_ids: {count} arms of {dim} features are too many at once: name fewer")
    found = look(by, state, np.ascontiguousarray(vectors), wanted.epsilon)
    estimates, behind = found.estimates, found.differences()
    possible = set(found.candidates)
    order = np.lexsort((np.arange(count), -estimates)).tolist()
    return {
        "sentence": found.sentence(ids),
        "best": ids[found.best],
        "decided": found.decided,
        "possible": len(possible),
        "count": count,
        **{key: getattr(found, key) for key in ("margin", "delta", "epsilon", "proved", "doubt", "assumes")},
        "rewards": found.count,
        "context": context.tolist() if context is not None and context.size else None,
        "candidates": [ids[i] for i in order if i in possible][:SHOWN],
        "arms": [
            {
                "id": ids[i],
                "estimate": float(estimates[i]),
                "behind": behind[i].estimate,
                "lower": behind[i].lower,
                "upper": behind[i].upper,
                "possible": i in possible,
            }
            for i in order[:SHOWN]
        ],
    }


class MemoryWeight(BaseModel):
    """How much a memory is trusted."""

    half_life: str = Field(description="In rewards, or a duration; ∞ never forgets.")
    weight: float


class AlarmView(BaseModel):
    """The rewards contradicted that nothing has changed since the last alarm."""

    reward: int = Field(description="After how many rewards.")
    time: float | None = Field(description="When its decision was taken, in seconds since 1970.")
    log_e: float


class AdoptionView(BaseModel):
    """A long memory forgot its past and went on from what a shorter one knew."""

    reward: int
    time: float | None = Field(description="When its decision was taken, in seconds since 1970.")
    half_life: str
    source: str


class DriftView(BaseModel):
    """What is known of changes."""

    sentence: str
    changed: bool = Field(description="Whether an alarm was ever raised.")
    count: int = Field(description="Rewards so far.")
    memory: float = Field(description="How many rewards the estimate that decides has in mind.")
    weights: list[MemoryWeight]
    log_e: float = Field(description="Evidence since the last alarm, a logarithm.")
    alarm_at: float = Field(description="The evidence at which an alarm is raised.")
    alpha: float = Field(description="How probable it is that one is ever raised while nothing changes.")
    alarm_count: int
    alarms: list[AlarmView] = Field(description="The last sixteen.")
    adoption_count: int
    adoptions: list[AdoptionView] = Field(description="The last sixteen.")
    assumes: str = Field(description="When that is so.")
    doubt: str | None = Field(description="Why it may not be, where the rewards themselves show it.")


async def drift(server: Server, name: str) -> Any:
    """Has the world changed, and when? For a policy that forgets; the level of its alarms is guaranteed."""
    bandit = await server.bandit(name)
    with refusing():
        return drift_of(bandit.policy, bandit.state).to_dict()
