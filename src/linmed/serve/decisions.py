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

from linmed import streams
from linmed.catalogue_sampler import UNIFORMS
from linmed.decision import Decision, probabilities_of, probability_of
from linmed.serve.bandit import Bandit, Drawn
from linmed.serve.catalogue import Offer, Whole
from linmed.serve.database import blob, now, pack, pack_places, vector
from linmed.validation import Floats

BLOCK = 256
EVERY = 128
"""Items up to which a decision's row has the probability of every arm, so that it stays below 1 KB."""


class Drawer:
    """Draws decisions with random numbers of its own, seeded by the system's secure source, in any thread."""

    def __init__(self) -> None:
        self._random = streams.stream(secrets.randbits(256), "agent")
        self._blocks: dict[tuple[str, int], tuple[Floats, int]] = {}
        self._random_parts: Iterator[str] = iter(())
        self._last = 0
        self._lock = threading.Lock()

    def route(self, bandit: Bandit, offers: Sequence[Offer | Whole]) -> list[Decision | None]:
        """What is drawn by route, all of it together; None for offers of single arms."""
        places = [i for i, offer in enumerate(offers) if isinstance(offer, Whole)]
        found: list[Decision | None] = [None] * len(offers)
        if places:
            assert bandit.router is not None
            with self._lock:
                noise = np.stack([self._noise(bandit, True) for _ in places])
            contexts = [offer.context for offer in offers if isinstance(offer, Whole)]
            for i, one in zip(places, bandit.router.decide_each(bandit.state, noise, contexts), strict=True):
                found[i] = one
        return found

    def draw(
        self,
        bandit: Bandit,
        offer: Offer | Whole,
        key: str | None,
        digest: bytes | None,
        routed: Decision | None = None,
    ) -> dict[str, Any]:
        """A row for the log; `routed` is what `route` has drawn already."""
        with self._lock:
            noise = None if isinstance(offer, Whole) else self._noise(bandit, False)
            identifier = self._identifier()
        row = {
            "id": identifier,
            "bandit": bandit.id,
            "key": key,
            "digest": digest,
            "version": bandit.version,
            "absorbed": bandit.count,
            "time": now(),
        }
        if isinstance(offer, Whole):
            routed = routed or self.route(bandit, [offer])[0]
            assert routed is not None
            return row | _routed(offer, routed)
        assert noise is not None
        drawn = bandit.draw(offer.vectors, noise)
        row |= {
            "arm": drawn.arm,
            "arm_id": None if offer.ids is None else offer.ids[drawn.arm],
            "arm_count": len(offer.vectors),
            "best": drawn.best,
            "log_probability": drawn.log_probability,
            "fallback": None,
            "kept": blob(drawn.kept),
        }
        if offer.catalogue is None:
            _given(row, bandit, offer, drawn)
        else:
            _listed(row, offer, drawn)
        return row

    def _noise(self, bandit: Bandit, by_route: bool) -> Floats:
        """Random numbers for one decision, (1, noise_size), or by route (4,), from a block."""
        kind = (
            ("route", UNIFORMS) if by_route else (bandit.policy.noise, bandit.policy.noise_size(bandit.dim))
        )
        block, used = self._blocks.get(kind, (np.empty(0), BLOCK))
        if used == BLOCK and by_route:
            block, used = self._random.random((BLOCK, UNIFORMS)), 0
        elif used == BLOCK:
            block, used = bandit.policy.draw_noise(self._random, (BLOCK, 1), bandit.dim), 0
        self._blocks[kind] = (block, used + 1)
        noise: Floats = block[used]
        return noise

    def _identifier(self) -> str:
        """128 bits in hexadecimal that grow with time, so that the index stays compact; 64 are random.

        The system is asked for many random bits at once.
        """
        self._last = max(self._last + 1, time.time_ns())
        random = next(self._random_parts, None)
        if random is None:
            many = secrets.token_hex(8 * BLOCK)
            self._random_parts = iter([many[i : i + 16] for i in range(0, len(many), 16)])
            random = next(self._random_parts)
        return f"{self._last:016x}{random}"


def _given(row: dict[str, Any], bandit: Bandit, offer: Offer, drawn: Drawn) -> None:
    """What the log holds of arms that came with the request: themselves."""
    row["features"] = blob(drawn.features)
    row["log_probabilities"] = blob(drawn.log_probabilities)
    row["arms"] = blob(offer.vectors) if bandit.log_arms else None
    row["catalogue"] = row["item"] = row["offered"] = row["context"] = None


def _listed(row: dict[str, Any], offer: Offer, drawn: Drawn) -> None:
    """What the log holds of arms from the catalogue: what makes them, again and again, to the last bit."""
    catalogue, places, every = offer.catalogue, offer.places, drawn.log_probabilities
    assert catalogue is not None
    assert offer.context is not None
    place = drawn.arm if places is None else int(places[drawn.arm])
    row["features"], row["arms"] = b"", None
    row["log_probabilities"] = None if every is None or len(every) > EVERY else every.astype("<f4").tobytes()
    row["catalogue"], row["item"] = catalogue.version, catalogue.number(int(catalogue.order[place]))
    row["offered"] = None if places is None else pack_places(places, catalogue.count)
    row["context"] = pack(offer.context) if offer.context.size else None


def _routed(offer: Whole, drawn: Decision) -> dict[str, Any]:
    """The rest of a row whose arm was found by route; where that was the fallback, it has no probability."""
    catalogue, log_p = offer.catalogue, drawn.log_probability if drawn.has_probability else None
    return {
        "arm": catalogue.place(drawn.arm),
        "arm_id": catalogue.id(drawn.arm),
        "arm_count": catalogue.count,
        "best": catalogue.place(drawn._best),  # type: ignore[arg-type]
        "log_probability": 0.0 if log_p is None else min(log_p, 0.0),
        "fallback": drawn.fallback,
        "features": b"",
        "kept": None,
        "log_probabilities": None,
        "arms": None,
        "catalogue": catalogue.version,
        "item": catalogue.number(drawn.arm),
        "offered": None,
        "context": pack(offer.context) if offer.context.size else None,
    }


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


def digest(arms: ArrayLike | None, arm_ids: Sequence[str] | None, context: Any) -> bytes:
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
        "probabilities": None if every is None else probabilities_of(every).tolist(),
        "policy_version": row["version"],
        "catalogue_version": row["catalogue"],
        "repeated": row.get("repeated", False),
    }
