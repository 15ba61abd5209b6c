"""Play what the authors' public code does otherwise than the text: policies and films of `--variant as-run`.

None of the policies plays the first round by its own rule: OFUL, LinTS and LinIMED draw an arm evenly, LinMED
leaves α_emp to the even share, SpannerIGW and EXP2 draw from their design. `OpeningRule` puts such a rule
before the other one. Nothing here is an option of the public policies.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.environments.base import Block
from linmed.environments.datasets import (
    digest,
    generated,
    principal_components,
    read_genres,
    read_lines,
    read_rows,
    unit_interval,
)
from linmed.environments.rewards import NoisyEnvironment
from linmed.policies import EXP2, OFUL, LinIMED, LinMED, LinTS, RidgePolicy, SpannerIGW
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.exp2 import Exp2State, fingerprints, require_same
from linmed.policies.ridge import RidgeState
from linmed.validation import Floats, Ints


@dataclass(frozen=True)
class OfulAsRun(OFUL):
    """OFUL after a first round drawn evenly, with a queue of late rewards that holds no copies."""

    keeps_copies: bool = False
    """Whether the queue does hold copies of the arms, as LinMED's does."""

    @property
    def rule(self) -> Any:
        """1/K, then the arm of the largest upper confidence bound."""
        return core.OpeningRule(core.UniformRule(), super().rule)


@dataclass(frozen=True)
class LinImedAsRun(LinIMED):
    """LinIMED after a first round drawn evenly."""

    @property
    def rule(self) -> Any:
        """1/K, then the arm of the smallest index."""
        return core.OpeningRule(core.UniformRule(), super().rule)


@dataclass(frozen=True)
class ArmZero(RidgePolicy, CompiledPolicy):
    """A random arm in the first round and arm 0 for ever after: what LinIMED-3 of the public code plays."""

    properties: ClassVar[Properties] = Properties(
        reference="authors' public code, December 2024",
        minimax="n",
        instance="n",
        computable="closed form",
        all_arms="no",
        randomised=True,
    )
    index_free: ClassVar[bool] = False

    @property
    def rule(self) -> Any:
        """1/K before any reward, then 1 on arm 0."""
        return core.OpeningRule(core.UniformRule(), core.ArmZeroRule())


@dataclass(frozen=True)
class LinTsAsRun(LinTS):
    """LinTS after a first round drawn evenly, with a queue of late rewards that holds no copies."""

    keeps_copies: bool = False
    """Whether the queue does hold copies of the arms, as LinMED's does."""

    @property
    def rule(self) -> Any:
        """⌊Φ(z)K⌋, then the best arm of θ̃."""
        return core.OpeningRule(core.EvenByNormalRule(), super().rule)

    def spread(self, state: RidgeState) -> Floats:
        """Return s in every replica (R,)."""
        return self._public.spread(state)

    @cached_property
    def _public(self) -> LinTS:
        """The policy whose draws follow the first round."""
        return LinTS(**{one.name: getattr(self, one.name) for one in fields(LinTS) if one.init})

    def _law(self, state: RidgeState, arms: Floats) -> tuple[Floats, Floats]:
        log_p, error = super()._law(state, arms)
        new = np.broadcast_to(state.count == 0, len(log_p))
        log_p[new], error[new] = -math.log(arms.shape[1]), 0.0
        return log_p, error


@dataclass(frozen=True)
class LinMedAsRun(LinMED):
    """LinMED with the centred design, without the half-step; the first round is α_opt·π + (1 − α_opt)/K."""

    explore: bool = False

    @property
    def rule(self) -> Any:
        """Before any reward f = 1: q without α_emp is the first round's law."""
        design = self.design_share
        return core.OpeningRule(core.CentredMedRule(0.0, design), core.CentredMedRule(self.alpha_emp, design))


@dataclass(frozen=True)
class SpannerIgwAsRun(SpannerIGW):
    """SpannerIGW with the centred design, which is all of the first round.

    The anytime version has γ of round t + 1 in round t, and shrinks the arms by the round before. (The public
    code looks for λ between 0.4 and 1.2; it is always between 1/2 and 1, so that makes no difference.)
    """

    @property
    def rule(self) -> Any:
        """The design, then q(a) / (λ + η gap(a))."""
        return core.OpeningRule(core.CentredDesignRule(), self._then)

    @property
    def _then(self) -> Any:
        return core.LaggingSpannerRule(**self._numbers)

    def exploration(self, state: RidgeState) -> Floats:
        """Return γ in every replica (R,)."""
        out = np.empty(len(state.count))
        core.exploration(self.bind(state), self._then, 0, out)
        return out


@dataclass(frozen=True)
class Exp2AsRun(EXP2):
    """P(a) = γ π(a) + (1 − γ) exp(η⟨Θ, a⟩)/Σ exp(η⟨Θ, ·⟩), Θ = Σ (I + Q)⁻¹a·y, with π the centred design.

    In round t η = √(log K / (3 d (t + 1))), at most 1/d, and γ = d η, told no horizon; the first round is
    drawn from π. Written in Python: only one small experiment has it.
    """

    def log_probabilities(self, state: Exp2State, arms: Floats) -> Floats:
        """Compute log P(a).  arms (R,K,d) or (1,K,d) → (R,K)."""
        with np.errstate(divide="ignore"):
            return np.log(self._law(state, arms))

    def features(self, state: Exp2State, arms: Floats, arm: Ints) -> Floats:
        """Return (I + Q)⁻¹a of the arms played; the set is remembered from now on.  arm (R,) → (R,d)."""
        state.arm_set[:] = self._checked(state, arms)[: len(state.arm_set)]
        weighted = arms.swapaxes(1, 2) * self._law(state, arms)[:, None, :]
        moved = np.eye(arms.shape[2]) + weighted @ arms
        vectors = super(EXP2, self).features(state, arms, arm)
        shrunk: Floats = np.linalg.solve(moved, vectors[..., None])[..., 0].astype(np.float64)
        return shrunk

    def _law(self, state: Exp2State, arms: Floats) -> Floats:
        self._checked(state, arms)
        _, K, d = arms.shape
        design = np.empty(arms.shape[:2])
        core.centred_design(validation.for_kernels(arms), design)
        eta = np.minimum(np.sqrt(np.log(K) / (3.0 * d * (state.count + 2.0))), 1.0 / d)[:, None]
        score = eta * (arms @ state.total[:, :, None])[:, :, 0]
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        mixed = d * eta * design + (1.0 - d * eta) * weight / weight.sum(axis=1, keepdims=True)
        law: Floats = np.where(state.count[:, None] == 0, design, mixed)
        return law

    def _checked(self, state: Exp2State, arms: Floats) -> Ints:
        """Fingerprints of the arms; an error if they are not those of the rounds before."""
        key = fingerprints(arms)
        require_same(not ((state.arm_set != 0) & (state.arm_set != key)).any())
        return key


SEED = 15751
"""Of the one draw that all trials share."""
DRAWN = 10
"""Users, and films."""
GENDERS = {"M": 1, "F": 2}


@dataclass(frozen=True)
class FilmsAsRun(NoisyEnvironment):
    """Ten users, ten films and θ*, drawn once for all trials; a user a round; arm = film ⊗ user (d = 4).

    Users (age, gender, occupation, sum of the zip code's characters) and films (19 genre flags) are reduced
    to 2 principal components among the ten and scaled to [0, 1]. In every round the arms are divided by the
    *smallest* of their norms, so none is shorter than 1. One round later the next user's arms, not divided by
    anything, stand in their place.
    """

    path: str | Path | None = field(default=None, compare=False)
    """An `ml-100k` directory; None takes generated tables of the same shape."""
    sigma: float = 1.0
    """σ*: the true noise level."""

    source: str = field(default="", init=False, repr=False)
    """"ml-100k" or "generated"."""
    digest: str = field(default="", init=False, repr=False)
    theta: Floats = field(init=False, repr=False, compare=False)
    """θ* (4,)."""
    raw: Floats = field(init=False, repr=False, compare=False)
    """film ⊗ user by user and film (10, 10, 4)."""
    _read_from: ClassVar[str] = "path"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.path is not None:
            self._set(path=str(self.path))
        films, users = generated() if self.path is None else _read(Path(self.path))
        if min(len(films), len(users)) < DRAWN:
            raise ValueError(
                f"{self.path} has {len(films)} films and {len(users)} users; {DRAWN} of each are drawn"
            )
        rng = np.random.RandomState(SEED)  # the draw itself is part of what was run
        some_users = users[rng.choice(len(users), DRAWN, replace=False)]
        some_films = films[rng.choice(len(films), DRAWN, replace=False)]
        theta = rng.normal(0.0, 1.0, 4)
        films_2d = unit_interval(principal_components(some_films, 2))
        users_2d = unit_interval(principal_components(some_users, 2))
        raw = np.einsum("ki,uj->ukij", films_2d, users_2d).reshape(DRAWN, DRAWN, 4)
        if not np.linalg.norm(raw, axis=2).all():
            raise ValueError(
                "a film or user among the ten has no features left: its arms would be divided by 0"
            )
        self._set(source="generated" if self.path is None else "ml-100k", digest=digest(films, users))
        self._set(theta=theta / np.linalg.norm(theta), raw=raw)
        self._valid(self.scaled @ self.theta)

    @property
    def scaled(self) -> Floats:
        """The arms that each user is offered, of norm 1 and more (10, 10, 4)."""
        divided: Floats = self.raw / np.linalg.norm(self.raw, axis=2).min(axis=1)[:, None, None]
        return divided

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """Yield a user for every round, known one round ahead because of what becomes of arms; and noise."""
        scaled, means = self.scaled, self.scaled @ self.theta
        following = rng.integers(DRAWN, size=1)
        while True:
            users = np.concatenate([following, rng.integers(DRAWN, size=self.block_rounds)])
            now, later, following = users[:-1], users[1:], users[-1:]
            yield Block(scaled[now], means[now], self._noise(rng), overwritten=self.raw[later])

    @property
    def name(self) -> str:
        """Whether the features are real, then the parameters."""
        return f"FilmsAsRun({self.source}, sigma={self.sigma})"


def _read(directory: Path) -> tuple[Floats, Floats]:
    """Raw features of the films (films, 19) and the users (users, 4) as the public code reads them."""
    films = read_genres(directory)[:, ::-1]
    people = read_rows(directory, "u.user", 5)
    line_of = {name.strip(): number for number, name in enumerate(read_lines(directory, "u.occupation"))}
    try:
        # The line break belongs to the zip code.
        users = [
            [float(age), GENDERS[gender], line_of[occupation], sum(map(ord, f"{zip_code}\n"))]
            for _, age, gender, occupation, zip_code in people
        ]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{directory / 'u.user'} holds an age, gender or occupation that is none: {error}"
        ) from None
    return films, np.array(users, dtype=np.float64)
