"""One bandit in memory: its policy, its state, and how a request becomes arms. Knows no database."""

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from linmed import checks
from linmed.checks import Floats
from linmed.policies.base import Policy
from linmed.serve.settings import LARGEST

Map = Literal["plain", "outer"]


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Arms that requests name by id."""

    ids: tuple[str, ...]
    features: Floats  # (n, f)

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each id stands."""
        return {name: i for i, name in enumerate(self.ids)}

    def rows(self, wanted: Sequence[str] | None) -> tuple[tuple[str, ...], Floats]:
        """The ids and features of `wanted`, or of all."""
        if wanted is None:
            return self.ids, self.features
        for i, name in enumerate(wanted):
            if name not in self.place:
                raise ValueError(f"arm_ids[{i}]: {name!r} is not in the catalogue")
        if not wanted:
            raise ValueError("arm_ids is empty: at least one arm is needed")
        return tuple(wanted), self.features[[self.place[name] for name in wanted]]


class Arms(NamedTuple):
    """What one request offers."""

    vectors: Floats  # (K, d)
    ids: tuple[str, ...] | None

    def digest(self) -> bytes:
        """Tells two requests apart that carry the same key."""
        found = hashlib.blake2b(self.vectors.tobytes(), digest_size=16)
        if self.ids is not None:
            found.update("\0".join(self.ids).encode())
        return found.digest()


class Drawn(NamedTuple):
    """A decision that has not been written yet."""

    arm: int
    best: int
    log_probability: float
    features: Floats  # (d,) of the arm
    kept: Floats | None  # (d,) what learn needs, where that is not `features`
    log_probabilities: Floats | None  # (K,)


@dataclass
class Bandit:
    """A bandit at one version of its policy."""

    id: int
    name: str
    dim: int
    policy: Policy
    version: int
    revision: int
    archived: bool
    log_arms: bool
    map: Map
    reward_range: tuple[float, float] | None
    catalogue: Catalogue | None
    seq: int = 0
    """The last reward that has been considered."""
    since_snapshot: int = 0
    state: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.state = self.policy.start(1, self.dim)
        if self.keeps:
            self._fix_arms()

    @property
    def keeps(self) -> bool:
        """Whether learning needs something of the moment of the decision (EXP2's Q⁻¹a).

        Such a policy works for one set of arms, the catalogue, and learns only from its own decisions.
        """
        return type(self.policy).features is not Policy.features

    def _fix_arms(self) -> None:
        """The state of such a policy remembers its arms: every server must begin with the same."""
        name = type(self.policy).__name__
        if self.catalogue is None or self.catalogue.features.shape[1] != self.dim:
            raise ValueError(f"policy: {name} needs a catalogue with {self.dim} features (dim) for each arm")
        self.policy.features(self.state, self.catalogue.features[None], np.zeros(1, dtype=np.int64))

    @property
    def count(self) -> int:
        """Rewards in the state."""
        return int(self.state.count[0])

    def arms(
        self,
        vectors: list[list[float]] | None,
        ids: Sequence[str] | None,
        context: list[float] | None,
        max_arms: int,
    ) -> Arms:
        """The arms of a request: given by features, or from the catalogue with a context."""
        if self.keeps and not (vectors is None and ids is None):
            given = "arms" if vectors is not None else "arm_ids"
            raise ValueError(
                f"{given}: {type(self.policy).__name__} always decides among the whole catalogue"
            )
        if vectors is not None:
            if context is not None:
                raise ValueError("context: goes with the catalogue's arms, not with arms given by features")
            if ids is not None and len(ids) != len(vectors):
                raise ValueError(f"arm_ids has {len(ids)} entries for {len(vectors)} arms")
            found = Arms(self._checked(vectors, max_arms), None if ids is None else tuple(ids))
        elif self.catalogue is None:
            raise ValueError("arms: give the features of each arm; this bandit has no catalogue")
        else:
            names, features = self.catalogue.rows(ids)
            if len(names) > max_arms:
                raise ValueError(f"arm_ids: at most {max_arms} arms in a decision, got {len(names)}")
            found = Arms(combine(features, context, self.map, self.dim), names)
        return found

    def _checked(self, vectors: list[list[float]], max_arms: int) -> Floats:
        if len(vectors) > max_arms:
            raise ValueError(f"arms: at most {max_arms} arms in a decision, got {len(vectors)}")
        return bounded("arms", checks.arm_matrix(vectors, self.dim))

    def draw(self, arms: Floats, noise: Floats) -> Drawn:
        """Decide among `arms` (K, d) with `noise` (1, noise_size)."""
        choice = self.policy.decide(self.state, arms[None], noise)
        arm, log_p = int(choice.arm[0]), float(choice.log_probability[0])
        if not math.isfinite(log_p):
            raise ValueError(
                "arms: the policy finds no probability for them; are they of very different size?"
            )
        every = None if choice.log_probabilities is None else choice.log_probabilities[0]
        kept = choice.features[0] if self.keeps else None
        best = int(np.argmax(arms @ self.state.theta[0]))
        return Drawn(arm, best, min(log_p, 0.0), arms[arm], kept, every)

    def absorbs(self, version: int) -> bool:
        """Whether the reward of a decision taken under `version` is part of this state."""
        return not self.keeps or version == self.version

    def fold(self, features: Floats, rewards: Floats) -> None:
        """Absorb rewards in their order.  features (m,d), rewards (m,)."""
        self.policy.learn(self.state, features, rewards, np.zeros(len(rewards), dtype=np.int64))
        self.since_snapshot += len(rewards)

    def check_reward(self, reward: float) -> None:
        """Rewards outside the declared range would make the confidence sequences wrong."""
        if self.reward_range is not None and not self.reward_range[0] <= reward <= self.reward_range[1]:
            low, high = self.reward_range
            raise ValueError(
                f"reward must lie in this bandit's reward_range [{low:g}, {high:g}], got {reward!r}"
            )

    def save(self) -> bytes:
        """The state as npz."""
        file = io.BytesIO()
        np.savez(file, **self.state.arrays())
        return file.getvalue()

    def load(self, content: bytes, seq: int) -> None:
        """The state that `save` wrote, which holds the rewards up to `seq`."""
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        self.state.restore(arrays)
        self.seq = seq


def bounded(name: str, array: Floats) -> Floats:
    """`array` if nothing in it is larger than the service accepts."""
    if array.size and max(array.max(), -array.min()) > LARGEST:
        where = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
        place = "".join(f"[{int(i)}]" for i in where)
        raise ValueError(f"{name}{place} is {array[where]:g}; at most {LARGEST:g} in size is accepted")
    return array


def combine(features: Floats, context: list[float] | None, map: Map, dim: int) -> Floats:
    """The arms' vectors (K, dim) from catalogue features (K, f) and a context (c,).

    plain: (features, context), dim = f + c.  outer: features ⊗ context, dim = f·c.
    """
    width = features.shape[1]
    user = bounded("context", checks.floats("context", [] if context is None else context).reshape(-1))
    if map == "outer":
        if width * user.size != dim:
            raise ValueError(f"context must have {dim // width} entries (dim / features), got {user.size}")
        joined: Floats = np.einsum("kf,c->kfc", features, user).reshape(len(features), dim)
    else:
        if width + user.size != dim:
            raise ValueError(f"context must have {dim - width} entries (dim − features), got {user.size}")
        joined = np.hstack([features, np.broadcast_to(user, (len(features), user.size))])
    return bounded("arms", np.ascontiguousarray(joined))


def as_catalogue(ids: Sequence[str], features: list[list[float]], map: Map, dim: int) -> Catalogue:
    """Checked: distinct ids, one row each, and a width that `map` can bring to `dim`."""
    if len(set(ids)) != len(ids):
        twice = next(name for i, name in enumerate(ids) if name in ids[:i])
        raise ValueError(f"catalogue: the id {twice!r} occurs twice")
    matrix = bounded("catalogue", checks.arm_matrix(features))
    width = matrix.shape[1]
    if map == "plain" and width > dim:
        raise ValueError(f"catalogue: arms have {width} features, more than dim={dim}")
    if map == "outer" and dim % width:
        raise ValueError(f"catalogue: with map 'outer' dim={dim} must be a multiple of the {width} features")
    return Catalogue(tuple(ids), matrix)
