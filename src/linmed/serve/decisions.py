"""A decision, from the arms of a request to the row of the log and the answer."""

import secrets
import time
from typing import Any

import numpy as np

from linmed import streams
from linmed.checks import Floats
from linmed.serve import store
from linmed.serve.bandit import Bandit, Offer
from linmed.serve.database import now

BLOCK = 256


class Drawer:
    """Draws decisions with random numbers of its own, seeded by the system's secure source."""

    def __init__(self) -> None:
        self._random = streams.stream(secrets.randbits(256), "agent")
        self._blocks: dict[tuple[str, int], tuple[Floats, int]] = {}
        self._last = 0

    def draw(self, bandit: Bandit, offer: Offer, key: str | None) -> dict[str, Any]:
        """A row for the log."""
        vectors, ids = offer
        drawn = bandit.draw(vectors, self._noise(bandit))
        return {
            "id": self._identifier(),
            "bandit": bandit.id,
            "key": key,
            "digest": None if key is None else offer.digest(),
            "version": bandit.version,
            "absorbed": bandit.count,
            "time": now(),
            "arm": drawn.arm,
            "arm_id": None if ids is None else ids[drawn.arm],
            "arm_count": len(vectors),
            "best": drawn.best,
            "log_probability": drawn.log_probability,
            "features": store.blob(drawn.features),
            "kept": store.blob(drawn.kept),
            "log_probabilities": store.blob(drawn.log_probabilities),
            "arms": store.blob(vectors) if bandit.log_arms else None,
        }

    def _noise(self, bandit: Bandit) -> Floats:
        """Random numbers for one decision, (1, noise_size), from a block."""
        kind = (bandit.policy.noise, bandit.policy.noise_size(bandit.dim))
        block, used = self._blocks.get(kind, (np.empty(0), BLOCK))
        if used == BLOCK:
            block, used = bandit.policy.draw_noise(self._random, (BLOCK, 1), bandit.dim), 0
        self._blocks[kind] = (block, used + 1)
        noise: Floats = block[used]
        return noise

    def _identifier(self) -> str:
        """128 bits in hexadecimal that grow with time, so that the index stays compact; 64 are random."""
        self._last = max(self._last + 1, time.time_ns())
        return f"{self._last:016x}{secrets.token_hex(8)}"


def view(row: Any) -> dict[str, Any]:
    """A decision as the API shows it."""
    every = row["log_probabilities"]
    return {
        "decision_id": row["id"],
        "arm": row["arm"],
        "arm_id": row["arm_id"],
        "probability": float(np.exp(row["log_probability"])),
        "log_probability": row["log_probability"],
        "probabilities": None if every is None else np.exp(store.vector(every)).tolist(),
        "policy_version": row["version"],
        "repeated": row.get("repeated", False),
    }
