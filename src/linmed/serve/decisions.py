"""A decision, from the arms of a request to the row of the log and the answer."""

import hashlib
import json
import math
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from linmed.decision import Decision, probabilities_of, probability_of
from linmed.serve.bandit import Bandit
from linmed.serve.database import blob, now, pack, vector
from linmed.serve.encoding import Offer
from linmed.validation import Floats

BLOCK = 256
NO_WORTH = dict.fromkeys(("value", "cost", "every_value", "every_cost"))
EVERY = 128
"""Items up to which a decision's row has the probability of every arm, so that it stays below 1 KB."""


class Identifiers:
    """Names decisions, in any thread: 128 bits in hexadecimal that grow with time, so that the index stays
    compact; 64 are random, of which the system is asked for many at once."""

    def __init__(self) -> None:
        self._random: Iterator[str] = iter(())
        self._last = 0
        self._lock = threading.Lock()

    def next(self) -> str:
        """The next one."""
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            random = next(self._random, None)
            if random is None:
                many = secrets.token_hex(8 * BLOCK)
                self._random = iter([many[i : i + 16] for i in range(0, len(many), 16)])
                random = next(self._random)
            return f"{self._last:016x}{random}"


def row(
    bandit: Bandit, offer: Offer, decision: Decision, identifier: str, key: str | None, digest: bytes | None
) -> dict[str, Any]:
    """A decision as a row for the log."""
    made = {
        "id": identifier,
        "bandit": bandit.id,
        "key": key,
        "digest": digest,
        "version": bandit.version,
        "absorbed": bandit.count,
        "time": now(),
        "control": decision.control,
        "control_share": None if decision.control is None else bandit.options.control,
        "shadow": None if decision.shadow is None else json.dumps(decision.shadow),
        "wait": bandit.options.wait,
    }
    if offer.vectors is None:
        return made | _routed(offer, decision)
    made |= {
        "arm": decision.arm,
        "arm_id": None if offer.ids is None else offer.ids[decision.arm],
        "arm_count": len(offer.vectors),
        "best": bandit.best(offer),
        "log_probability": min(decision.log_probability, 0.0),
        "fallback": None,
        "kept": decision._kept if bandit.keeps else None,
        **_worth(bandit, offer, decision.arm),
    }
    return made | (_given(bandit, offer, decision) if offer.catalogue is None else _listed(offer, decision))


def _worth(bandit: Bandit, offer: Offer, arm: int) -> dict[str, Any]:
    """What the log holds of values and costs."""
    if offer.worth is None:
        return NO_WORTH
    values, costs = offer.worth.both(0 if offer.vectors is None else len(offer.vectors))
    made: dict[str, Any] = {"value": float(values[arm]), "cost": float(costs[arm])}
    every = {"every_value": blob(values), "every_cost": blob(costs)} if bandit.log_arms else {}
    return NO_WORTH | made | every


def _given(bandit: Bandit, offer: Offer, decision: Decision) -> dict[str, Any]:
    """What the log holds of arms that came with the request: themselves."""
    return {
        "features": blob(decision.features),
        "log_probabilities": blob(decision.log_probabilities),
        "arms": blob(offer.vectors) if bandit.log_arms else None,
        "catalogue": None,
        "item": None,
        "offered": None,
        "context": None,
    }


def _listed(offer: Offer, decision: Decision) -> dict[str, Any]:
    """What the log holds of arms from the catalogue: what makes them, again and again, to the last bit."""
    catalogue, places, every = offer.catalogue, offer.places, decision.log_probabilities
    assert catalogue is not None
    place = decision.arm if places is None else int(places[decision.arm])
    return {
        "features": b"",
        "log_probabilities": None if every is None or len(every) > EVERY else every.astype("<f4").tobytes(),
        "arms": None,
        "catalogue": catalogue.version,
        "item": catalogue.number(int(catalogue.order[place])),
        "offered": None if places is None else places.astype("<u4").tobytes(),
        "context": _packed(offer.context),
    }


def _routed(offer: Offer, decision: Decision) -> dict[str, Any]:
    """What the log holds of an item found by route; where that was the fallback, it has no probability."""
    catalogue, best = offer.catalogue, decision.best
    assert catalogue is not None
    assert best is not None
    return {
        "arm": catalogue.place(decision.arm),
        "arm_id": catalogue.id(decision.arm),
        "arm_count": catalogue.count,
        "best": catalogue.place(best),
        "log_probability": min(decision.log_probability, 0.0) if decision.has_probability else 0.0,
        "fallback": decision.fallback,
        "features": b"",
        "kept": None,
        "log_probabilities": None,
        "arms": None,
        "catalogue": catalogue.version,
        "item": catalogue.number(decision.arm),
        "offered": None,
        "context": _packed(offer.context),
        **NO_WORTH,
    }


def _packed(context: Floats | None) -> bytes | None:
    return None if context is None or not context.size else pack(context)


def log_probabilities(row: Any) -> Floats | None:
    """Of every arm, where a row of the log has them; that of the arm played is exact, and they sum to 1."""
    content, played = row["log_probabilities"], row["arm"]
    if content is None:
        return None
    if len(content) == 8 * row["arm_count"]:
        every = vector(content)
        every[played] = row["log_probability"]
        return every
    every = np.frombuffer(content, dtype="<f4").astype(np.float64)
    every[played] = -np.inf
    # The others were rounded to single precision: they share what the arm played leaves them, 1 − p. Where
    # that is next to nothing, so is their error, and 1 − p is itself known to fewer digits than they are.
    rest, total = -math.expm1(row["log_probability"]), math.fsum(probabilities_of(every))
    if rest > 1e-8 and total > 0.0:
        every += math.log(rest / total)
    every[played] = row["log_probability"]
    return every


def digest(arms: ArrayLike | None, arm_ids: Sequence[str] | None, context: Any, *worth: Any) -> bytes:
    """Tells two requests apart that carry the same key, whatever the catalogue has become in between."""
    found = hashlib.blake2b(digest_size=8)
    if isinstance(context, dict):
        found.update(json.dumps(context, sort_keys=True).encode())
        context = None
    for numbers in (arms, context):
        # + 0.0 makes 0 of −0, which readers of JSON do or do not.
        found.update(b"-" if numbers is None else (np.asarray(numbers, dtype=np.float64) + 0.0).tobytes())
        found.update(b"|")
    if arm_ids is not None:
        found.update("\0".join(arm_ids).encode())
    if any(one is not None for one in worth):
        found.update(json.dumps(worth, sort_keys=True).encode())
    return found.digest()


def view(row: Any) -> dict[str, Any]:
    """A decision as the API shows it."""
    every, fallback = log_probabilities(row), bool(row["fallback"])
    return {
        "decision_id": row["id"],
        "arm": row["arm"],
        "arm_id": row["arm_id"],
        "probability": None if fallback else probability_of(row["log_probability"]),
        "log_probability": None if fallback else row["log_probability"],
        "fallback": fallback,
        "control": row["control"],
        "shadow": None if row["shadow"] is None else json.loads(row["shadow"]),
        "probabilities": None if every is None else probabilities_of(every).tolist(),
        "policy_version": row["version"],
        "catalogue_version": row["catalogue"],
        "repeated": row.get("repeated", False),
    }
