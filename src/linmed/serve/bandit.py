"""One bandit in memory: its policy, its state, and how a request becomes arms. Knows no database.

Errors name the field of the request, as `linmed.checks` does.
"""

import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from linmed import checks
from linmed.checks import BadValue, Floats
from linmed.policies.base import Policy
from linmed.serve.errors import INPUT, field_of, place
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
                raise BadValue(f"arm_ids[{i}]", f"arm_ids[{i}]: {name!r} is not in the catalogue")
        if not wanted:
            raise BadValue("arm_ids", "arm_ids is empty: at least one arm is needed")
        return tuple(wanted), self.features[[self.place[name] for name in wanted]]


class Offer(NamedTuple):
    """The arms among which one request asks for a decision."""

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


@dataclass(kw_only=True)
class Bandit:
    """A bandit at one version of its policy."""

    id: int
    name: str
    dim: int
    policy: Policy
    version: int = 1
    revision: int = 1
    archived: bool = False
    log_arms: bool = True
    map: Map = "plain"
    reward_range: tuple[float, float] | None = None
    catalogue: Catalogue | None = None
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
        return not self.policy.learns_from_arms

    def _fix_arms(self) -> None:
        """The state of such a policy remembers its arms: every server must begin with the same."""
        name = type(self.policy).__name__
        if self.catalogue is None or self.catalogue.features.shape[1] != self.dim:
            text = f"policy: {name} needs a catalogue with {self.dim} features (dim) for each arm"
            raise BadValue("catalogue", text)
        self.policy.features(self.state, self.catalogue.features[None], np.zeros(1, dtype=np.int64))

    @property
    def count(self) -> int:
        """Rewards in the state."""
        return int(self.state.count[0])

    def offer(
        self,
        vectors: list[list[float]] | None,
        ids: Sequence[str] | None,
        context: list[float] | None,
        max_arms: int,
    ) -> Offer:
        """The arms of a request: given by features, or from the catalogue with a context."""
        given = "arm_ids" if vectors is None else "arms"
        if self.keeps and not (vectors is None and ids is None):
            name = type(self.policy).__name__
            raise BadValue(given, f"{given}: {name} always decides among the whole catalogue")
        if vectors is not None:
            if context is not None:
                text = "context: goes with the catalogue's arms, not with arms given by features"
                raise BadValue("context", text)
            if ids is not None and len(ids) != len(vectors):
                raise BadValue("arm_ids", f"arm_ids has {len(ids)} entries for {len(vectors)} arms")
            few(given, len(vectors), max_arms)
            found = bounded("arms", checks.arm_matrix(vectors, self.dim))
            return Offer(found, None if ids is None else tuple(ids))
        if self.catalogue is None:
            raise BadValue("arms", "arms: give the features of each arm; this bandit has no catalogue")
        names, features = self.catalogue.rows(ids)
        few(given, len(names), max_arms)
        return Offer(combine(features, context, self.map, self.dim), names)

    def draw(self, arms: Floats, noise: Floats) -> Drawn:
        """Decide among `arms` (K, d) with `noise` (1, noise_size)."""
        choice = self.policy.decide(self.state, arms[None], noise)
        arm, log_p = int(choice.arm[0]), float(choice.log_probability[0])
        if not math.isfinite(log_p):
            text = "arms: the policy finds no probability for them; are they of very different size?"
            raise BadValue("arms", text)
        every = None if choice.log_probabilities is None else choice.log_probabilities[0]
        kept = choice.features[0] if self.keeps else None
        best = int(np.argmax(np.einsum("kd,d->k", arms, self.state.theta[0])))  # starts no thread of BLAS
        return Drawn(arm, best, min(log_p, 0.0), arms[arm], kept, every)

    def warm_up(self) -> None:
        """Compile what a decision and a reward need, on a state of no consequence."""
        state, policy = self.policy.start(1, self.dim), self.policy
        two = np.eye(max(2, self.dim))[:2, : self.dim]
        arms = self.catalogue.features if self.keeps and self.catalogue else checks.for_kernels(two)
        choice = policy.decide(state, arms[None], np.full((1, policy.noise_size(self.dim)), 0.5))
        policy.learn(state, choice.features, np.zeros(1), np.zeros(1, dtype=np.int64))

    def absorbs(self, version: int) -> bool:
        """Whether the reward of a decision taken under `version` is part of this state."""
        return not self.keeps or version == self.version

    def fold(self, features: Floats, rewards: Floats) -> None:
        """Absorb rewards in their order.  features (m,d), rewards (m,)."""
        self.policy.learn(self.state, features, rewards, np.zeros(len(rewards), dtype=np.int64))
        self.since_snapshot += len(rewards)

    def check_reward(self, reward: float) -> None:
        """Rewards outside the declared range would make the confidence sequences wrong."""
        if abs(reward) > LARGEST:
            raise BadValue("reward", f"reward is {reward:g}; at most {LARGEST:g} in size is accepted")
        if self.reward_range is not None and not self.reward_range[0] <= reward <= self.reward_range[1]:
            low, high = self.reward_range
            text = f"reward must lie in this bandit's reward_range [{low:g}, {high:g}], got {reward!r}"
            raise BadValue("reward", text)

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


def few(field: str, number: int, most: int) -> None:
    """Refuse more arms than one decision may have."""
    if number > most:
        raise BadValue(field, f"{field}: at most {most} arms in a decision, got {number}")


def bounded(field: str, array: Floats) -> Floats:
    """`array` if nothing in it is larger than the service accepts."""
    if array.size and max(array.max(), -array.min()) > LARGEST:
        where = np.unravel_index(int(np.argmax(np.abs(array))), array.shape)
        entry = field + "".join(f"[{int(i)}]" for i in where)
        raise BadValue(entry, f"{entry} is {array[where]:g}; at most {LARGEST:g} in size is accepted")
    return array


def combine(features: Floats, context: list[float] | None, map: Map, dim: int) -> Floats:
    """The arms' vectors (K, dim) from catalogue features (K, f) and a context (c,).

    plain: (features, context), dim = f + c.  outer: features ⊗ context, dim = f·c.
    """
    width = features.shape[1]
    user = bounded("context", checks.floats("context", [] if context is None else context).reshape(-1))
    needed, how = (dim // width, "dim / features") if map == "outer" else (dim - width, "dim − features")
    if user.size != needed:
        raise BadValue("context", f"context must have {needed} entries ({how}), got {user.size}")
    if map == "outer":
        joined: Floats = np.einsum("kf,c->kfc", features, user).reshape(len(features), dim)
    else:
        joined = np.hstack([features, np.broadcast_to(user, (len(features), user.size))])
    return bounded("arms", checks.for_kernels(joined))


def as_policy(config: dict[str, Any], where: str = "policy") -> Policy:
    """The policy that a request describes at `where`."""
    try:
        policy = Policy.from_dict(config)
    except INPUT as error:
        parameter = field_of(error) or ""
        raise BadValue(
            place(where, parameter) if parameter.isidentifier() else where, f"{where}: {error}"
        ) from None
    if "\0" in policy.name or len(policy.name) > 500:
        text = f"{where}: label must be a name of at most 500 characters"
        raise BadValue(place(where, "label"), text)
    return policy


def as_catalogue(ids: Sequence[str], features: list[list[float]], map: Map, dim: int) -> Catalogue:
    """Checked: distinct ids, one row each, and a width that `map` can bring to `dim`."""
    if len(ids) != len(features):
        raise BadValue("catalogue", f"catalogue: {len(ids)} ids for {len(features)} rows of features")
    if len(set(ids)) != len(ids):
        twice = next(name for i, name in enumerate(ids) if name in ids[:i])
        raise BadValue("catalogue.ids", f"catalogue: the id {twice!r} occurs twice")
    field = "catalogue.features"
    try:
        matrix = checks.arm_matrix(features)
    except INPUT as error:
        raise BadValue(field, f"catalogue: {error}") from None
    bounded(field, matrix)
    width = matrix.shape[1]
    if map == "plain" and width > dim:
        raise BadValue(field, f"catalogue: arms have {width} features, more than dim={dim}")
    if map == "outer" and dim % width:
        text = f"catalogue: with map 'outer' dim={dim} must be a multiple of the {width} features"
        raise BadValue(field, text)
    return Catalogue(tuple(ids), matrix)
