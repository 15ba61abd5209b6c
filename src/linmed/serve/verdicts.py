"""Say which items of a bandit can still be the best, by `linmed.insight.best_arm`."""

from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.engine import Connection

from linmed.insight.best_arm import DELTA, look, looker
from linmed.serve.bandit import Bandit, few
from linmed.serve.catalogue import MOST_AT_ONCE, Whole, from_catalogue
from linmed.serve.errors import Refused, refusing
from linmed.serve.outlook import SHOWN, context_size, mean_context
from linmed.serve.schemas import ARMS, ArmId, Context, Finite, example
from linmed.serve.server import Server
from linmed.validation import BadValue, Floats

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
    arms: list[list[Finite]] | None = Field(default=None, min_length=1)
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
    state = bandit.state.copy()  # as it is now; the work is done beside the event loop

    def found(connection: Connection) -> dict[str, Any]:
        needed = context_size(bandit)
        with refusing():
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
            vectors = bandit.joining.join(bandit.catalogue.features, context)
            return answer(bandit, state, vectors, bandit.catalogue.ids, context, wanted.delta, wanted.epsilon)

    return await server.reading(found)


async def given_verdict(server: Server, name: str, wanted: VerdictRequest) -> Any:
    """The same for arms given by their features, for some items, or for another context."""
    bandit = await server.bandit(name)
    state = bandit.state.copy()

    def found(connection: Connection) -> dict[str, Any]:
        with refusing():
            offer = bandit.offer(wanted.arms, wanted.arm_ids, wanted.context, server.settings.max_arms)
            if isinstance(offer, Whole):
                few("arm_ids", offer.catalogue.count, server.settings.max_arms)
                offer = from_catalogue(offer.catalogue, None, wanted.context, bandit.joining)
            ids = offer.ids or tuple(map(str, range(len(offer.vectors))))
            return answer(bandit, state, offer.vectors, ids, offer.context, wanted.delta, wanted.epsilon)

    return await server.reading(found)


def answer(
    bandit: Bandit,
    state: Any,
    vectors: Floats,
    ids: tuple[str, ...],
    context: Floats | None,
    delta: float,
    epsilon: float,
) -> dict[str, Any]:
    """The verdict on vectors (K,d), called `ids`, as the API shows it."""
    by = looker(bandit.policy, delta)
    count, dim = vectors.shape
    if by.capabilities.per_item:  # every arm is a direction of its own
        dim = count
    if count * dim * dim > MOST_WORK:
        raise BadValue("arm_ids", f"arm_ids: {count} arms of {dim} features are too many at once: name fewer")
    found = look(by, state, np.ascontiguousarray(vectors), epsilon)
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
