"""Models per item: `Disjoint`, one θ for each, and `Hybrid`, with a part that all share (Li et al. 2010)."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Choice, Noise, Policy, Properties, absorbable, decisions
from linmed.policies.igw import SquareCB
from linmed.policies.linmed import CatalogueMED
from linmed.policies.model_state import FIRST_ROOM, MOST_BYTES, ItemModels, ModelsState, models_of
from linmed.policies.posterior import Capabilities, Posterior, Prediction
from linmed.policies.ridge import RidgePolicy, RidgeState, start_ridge
from linmed.policies.thompson import LinTS
from linmed.policies.ucb import Pinpoint
from linmed.policies.wrapper import Wrapper
from linmed.validation import Floats, Ints

SHOWN = (LinTS, Pinpoint)
"""Policies whose rules multiply a θ̂ with arms: they are shown a ridge estimate with the same means and
distances, of K dimensions for K arms. Other rules ask the belief for what they look at (`asks`)."""
_CHUNK = 64  # arms that are compared with the best one at a time


@dataclass(frozen=True, kw_only=True)
class ModelPolicy(Wrapper):
    """The base policy, around a model for every item: what `Disjoint` and `Hybrid` have in common."""

    learns_in_core: ClassVar[bool] = True

    @property
    @abstractmethod
    def shared_features(self) -> int:
        """m: how many columns of an arm all models share."""

    def __post_init__(self) -> None:
        super().__post_init__()
        base: Any = self.base
        asks = getattr(getattr(base, "rule", None), "asks", False) and not isinstance(base, CatalogueMED)
        if not asks and not isinstance(base, SHOWN):
            raise validation.BadValue(
                "base",
                "base must be LinMED, OFUL, LinUCB, LinIMED, RandUCB, LinTS, Pinpoint, SquareCB, Greedy or "
                f"Uniform, whose rules need no more of items than means and distances, got {base.name}",
            )
        for name, value in (("norm_bound", base.norm_bound), ("ridge", base.ridge)):
            if isinstance(value, str):
                raise validation.BadValue(
                    "base",
                    f"base: {name} must be a number, for there may always be another item of which "
                    f"nothing is known, got {base.name}",
                )
        counting = isinstance(base, SquareCB) and base.horizon is not None and base.gamma is None
        if counting or (isinstance(base, LinTS) and base.scale == "agrawal-goyal"):
            raise validation.BadValue(
                "base",
                "base must not compute its exploration from the number of features, which grows with the "
                f"items (scale='agrawal-goyal' of LinTS, horizon of SquareCB), got {base.name}",
            )

    @property
    def ridge_policy(self) -> RidgePolicy:
        """The base policy."""
        assert isinstance(self.base, RidgePolicy)
        return self.base

    @cached_property
    def compiled_rounds(self) -> bool:  # type: ignore[override]
        """Whether the rule asks for what it looks at."""
        return bool(self.rule.asks)

    @property
    def law_in_core(self) -> bool:  # type: ignore[override]
        """Where it does."""
        return self.compiled_rounds

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """Uniforms: a draw of θ̃ takes as many normals as there are arms, which nobody knows beforehand."""
        return "uniform"

    def noise_size(self, dim: int) -> int:
        """One, or two from which normals are made."""
        return 1 if self.base.noise == "uniform" else 2

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """The uniforms."""
        return Policy.draw_noise(self, rng, shape, dim)

    @property
    def belief(self) -> Any:
        """Models of items."""
        return core.ItemModels

    @cached_property
    def confidence_set(self) -> Any:
        """That of the base policy, of all models together."""
        return self.ridge_policy.confidence_set

    @property
    def rule(self) -> Any:
        """The rule of the base policy."""
        return self.base.rule  # type: ignore[attr-defined]

    def start(self, replicas: int, dim: int) -> ModelsState:
        """V = λI in every replica: no model has been learned from."""
        m, lam = self.shared_features, self.ridge_policy.lam
        c = dim - 1 - m
        if c < 1:
            raise validation.BadValue(
                "dim",
                f"dim must be at least {m + 2} for {self.name}: the number of the model"
                f"{f', {m} shared' if m else ''} and one or more features of its own, got {dim}",
            )
        shared, rows = start_ridge(replicas, m, lam), (replicas, 1 + FIRST_ROOM)
        identity = np.broadcast_to(np.eye(c), (*rows, c, c))
        models = (
            np.zeros(rows, dtype=np.int64), np.zeros((*rows, 1 + m, c)), lam * identity,
            np.zeros((*rows, c, c)), identity / lam, np.zeros((*rows, 1 + m, c)), np.zeros((*rows, 1 + m, c)),
        )  # fmt: skip
        return ModelsState(**dict(zip(ItemModels._fields, (*shared, *models), strict=True)))

    def learn(self, state: ModelsState, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """The arm's model learns, and what all share."""
        models = models_of("features", features, state)
        if models > state.room:
            state.make_room(models)
        core.observe(self.bind(state), *absorbable(state, features, rewards, replicas))

    def live(self, state: ModelsState) -> "_Live":
        """The core's agent, which is made again when the state has grown."""
        return _Live(self, state)

    def _rounds(self, state: ModelsState, arms: Floats, *others: Any) -> None:
        if not self.compiled_rounds:
            self._one_by_one(state, arms, *others)
            return
        models = models_of("arms", arms, state)
        grows = len(others[0]) > 0 and models > state.room
        if grows:
            state.make_room(models)
        super()._rounds(state, arms, *others)
        if grows:  # for all that might have been learned from
            state.make_room(state.learned)

    def _one_by_one(
        self,
        state: Any,
        arms: Floats,
        rewards: Floats,
        errors: Floats,
        noise: Floats,
        played: Ints,
        _: Floats,
    ) -> None:
        """The rounds of the core, for a rule that is shown something else than this belief."""
        replicas = np.arange(played.shape[1])
        for t in range(len(played)):
            offered = arms[t] if len(arms) > 1 else arms[0]
            played[t] = self.choose(state, offered, noise[t])
            paid = rewards[t if len(rewards) > 1 else 0][replicas, played[t]]
            paid = paid + errors[t] if len(errors) else paid
            self.learn(state, self.features(state, offered, played[t]), paid, replicas)

    def shown(self, state: ModelsState, arms: Floats) -> tuple[RidgeState, Floats]:
        """A ridge estimate for each decision, and arms (R,K,K), with the means and distances of these."""
        arms = validation.for_kernels(arms)
        mean, gram = self.look(state, arms, distances=True)
        (decided, count), lam, own = mean.shape, self.ridge_policy.lam, state.arrays()
        theta, out = np.empty_like(mean), np.empty_like(gram)
        core.coordinates(arms, mean, gram, lam, out, theta)
        identity, nothing = np.broadcast_to(np.eye(count), gram.shape), np.zeros_like(mean)
        sums = {name: np.resize(own[name], decided) for name in ("count", "logdet", "rss", "leveraged")}
        estimate = RidgeState(
            theta=theta, gram=lam * identity, gram_low=np.zeros_like(gram), inverse=identity / lam,
            moment=nothing, moment_low=nothing, **sums,
        )  # fmt: skip
        return estimate, out

    def _drawn(self, noise: Floats, count: int) -> Floats:
        """What the base policy draws from, for `count` arms."""
        if self.base.noise == "uniform":
            return noise
        normals = np.empty((len(noise), self.base.noise_size(count)))
        core.more_normals(np.ascontiguousarray(noise).view(np.uint64), normals)
        return normals

    def log_probabilities(self, state: ModelsState, arms: Floats) -> Floats:
        """log p(a) of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        if self.compiled_rounds:
            return super().log_probabilities(state, arms)
        return self.base.log_probabilities(*self.shown(state, arms))

    def choose(self, state: ModelsState, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica."""
        if self.compiled_rounds:
            return super().choose(state, arms, noise)
        return self.base.choose(*self.shown(state, arms), self._drawn(noise, arms.shape[1]))

    def decide(self, state: ModelsState, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        if self.compiled_rounds:
            return super().decide(state, arms, noise)
        choice = self.base.decide(*self.shown(state, arms), self._drawn(noise, arms.shape[1]))
        return choice._replace(features=self.features(state, arms, choice.arm))

    def noise_level(self, state: ModelsState) -> Floats:
        """σ as it was told, or an estimate of it (R,)."""
        base = self.ridge_policy
        if not isinstance(base.sigma, str):
            return np.full(len(state.count), base.sigma)
        out = np.empty(len(state.count))
        scale = np.full(len(out), base.reward_scale)
        core.likely_variances(state.count.astype(np.float64), state.arrays()["rss"], scale, out)
        return np.sqrt(out)

    def radius(self, state: ModelsState) -> Floats:
        """√β of all models together, one per replica (R,)."""
        out = np.empty(len(state.count))
        core.radii(self.bind(state), self.confidence_set, out)
        return out

    def look(self, state: ModelsState, arms: Floats, distances: bool = False) -> tuple[Floats, Floats]:
        """⟨θ̂, a⟩ (R,K), and ‖a‖² in V⁻¹ (R,K,1) or, with `distances`, every a·V⁻¹·a′ (R,K,K)."""
        models_of("arms", arms, state)
        decided, count = decisions(state, arms), arms.shape[1]
        if distances and 8 * decided * count * count > MOST_BYTES:
            raise validation.BadValue(
                "arms",
                f"arms: {self.name} compares each of {count} arms with each other, which takes more than "
                f"{MOST_BYTES >> 30} GiB; offer fewer, or use {type(self).__name__}(LinMED(…))",
            )
        mean, gram = np.empty((decided, count)), np.empty((decided, count, count if distances else 1))
        core.look_at_models(self.bind(state), validation.for_kernels(arms), mean, gram)
        return mean, gram

    def expected(self, state: ModelsState, arms: Floats) -> Floats:
        """⟨θ̂, a⟩ by the model of each arm."""
        expected: Floats = self.look(state, arms[None])[0][0]
        return expected

    @property
    def capabilities(self) -> Capabilities:
        """Intervals, and the base policy's verdicts, of items with a model each."""
        base = self.base.capabilities
        return base._replace(covariance=False, refutable=False, per_item=True, shared=self.shared_features)

    def with_delta(self, delta: float) -> "ModelPolicy":
        """The same around the base policy with this δ."""
        return replace(self, base=self.base.with_delta(delta))

    def propensity_error(self, state: ModelsState, arms: Floats) -> Floats | None:
        """That of the base policy."""
        return None if self.compiled_rounds else self.base.propensity_error(*self.shown(state, arms))

    def posterior(self, state: ModelsState) -> "ModelsPosterior":
        """⟨θ̂, a⟩ ± √β‖a‖ in V⁻¹ by the model of each arm."""
        n = int(state.count[0])
        return ModelsPosterior(
            theta=state.arrays()["theta"][0], inverse=np.empty((0, 0)), radius=float(self.radius(state)[0]),
            count=n, grounds=self.ridge_policy.grounds(n), noise=float(self.noise_level(state)[0]),
            policy=self, state=state,
        )  # fmt: skip

    def like(self, arms: Floats) -> Floats:
        """Arms in which every one of the first few models has its turn."""
        dim = max(arms.shape[1], 2 + self.shared_features)
        made = np.ones((len(arms), dim))
        made[:, : arms.shape[1]] = arms
        made[:, 0] = np.arange(len(arms)) % FIRST_ROOM
        return made


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelsPosterior(Posterior):
    """What a state says of arms by the model of each; `theta` is of the features that all share."""

    policy: ModelPolicy
    state: ModelsState

    def predict(self, arms: Floats) -> Prediction:
        """⟨θ̂, a⟩ ± √β‖a‖ in V⁻¹."""
        means, leverages = self.policy.look(self.state, arms[None])
        return self._between(means[0], leverages[0, :, 0])

    def gains(self, arms: Floats, best: int) -> Floats:
        """As of one model, with a part of the arms at a time."""
        gains = np.empty(len(arms))
        for start in range(0, len(arms), _CHUNK):
            some = np.concatenate([arms[best : best + 1], arms[start : start + _CHUNK]])
            means, products = self.policy.look(self.state, some[None], distances=True)
            mean, gram = means[0], products[0]
            apart = gram.diagonal()[1:] + gram[0, 0] - 2.0 * gram[0, 1:]
            gains[start : start + _CHUNK] = mean[1:] - mean[0] + self._reach(apart)
        return gains

    def weights(self, arms: Floats) -> tuple[Floats, Ints]:
        """θ of every model that was learned from, and of one that was not, as weights of an arm's columns."""
        own, m = self.state.thetas[0], len(self.theta)
        weights = np.zeros((len(own) + 1, arms.shape[1]))
        weights[:, 1 : 1 + m] = self.theta
        weights[:-1, 1 + m :] = own
        return weights, np.minimum(arms[:, 0].astype(np.int64), len(own))

    def compared(self, arms: Floats) -> tuple[Floats, Floats, Floats]:
        """Means and distances are all that counts, so every arm may be a direction of its own."""
        means, products = self.policy.look(self.state, arms[None], distances=True)
        return means[0], products[0], np.eye(len(arms))


@dataclass(frozen=True, kw_only=True)
class Disjoint(ModelPolicy):
    """The base policy, with one θ for each item: arms are rows (number of the item's model, x₁, …, x_c).

    It decides as the base policy would among the arms e_m ⊗ x, with zeros for all items but one, at the
    price of x alone. Models are numbered 0, 1, 2, …; a new one starts at the prior.

    >>> from linmed.policies import LinMED
    >>> Disjoint(LinMED(sigma=0.5)).name
    'Disjoint LinMED-90 (sigma=0.5)'

    >>> from linmed import Agent
    >>> agent = Agent(Disjoint(LinMED(sigma=0.5)), dim=2)
    >>> agent.observe([[0, 1.0]] * 9, [1.0] * 9)  # of item 0 alone
    >>> agent.mean([[0, 1.0], [1, 1.0]]).mean.round(2)
    array([0.97, 0.  ])

    Its parameter is the policy `base`, and the `label` of every `Policy`.
    """

    properties: ClassVar[Properties] = Properties(
        reference="Li, Chu, Langford & Schapire 2010",
        minimax="as the base policy, d = Mc",
        instance="as the base policy, d = Mc",
        computable="that of the base policy",
        all_arms="as the base policy",
        randomised=True,
    )

    @property
    def shared_features(self) -> int:
        """None."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Hybrid(ModelPolicy):
    """The base policy, with a part of θ that all items share: arms are rows (model, z₁, …, z_m, x₁, …).

    It decides as the base policy would among the arms [z; e_m ⊗ x]: what one item teaches of z, all know.

    >>> from linmed.policies import LinMED
    >>> Hybrid(LinMED(sigma=0.5), shared=3).name
    'Hybrid LinMED-90 (sigma=0.5) (shared=3)'

    >>> from linmed import Agent
    >>> agent = Agent(Hybrid(LinMED(sigma=0.5), shared=1), dim=3)
    >>> agent.observe([[0, 1.0, 1.0]] * 9, [1.0] * 9)  # of item 0, and of what all share
    >>> agent.mean([[0, 1.0, 1.0], [1, 1.0, 1.0]]).mean.round(2)
    array([0.99, 0.49])

    Its parameters are the policy `base`, `shared`, and the `label` of every `Policy`.
    """

    shared: int = 1
    """m: how many of the columns behind the model's number are shared features."""

    properties: ClassVar[Properties] = Disjoint.properties._replace(
        minimax="as the base policy, d = m + Mc", instance="as the base policy, d = m + Mc"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("shared", validation.whole("shared", self.shared))

    @property
    def shared_features(self) -> int:
        """m."""
        return self.shared


class _Live:
    """The core's agent on the arrays of a state, and another whenever the state has others."""

    def __init__(self, policy: ModelPolicy, state: ModelsState) -> None:
        self.policy, self.state = policy, state
        self._bind()

    def _bind(self) -> None:
        policy, self.parts = self.policy, self.state.parts()
        self.core = core.Live(policy.bind(self.state), policy.confidence_set, policy._deciding)

    def decide(self, arms: Floats, noise: Floats, t: int, law: Floats) -> int:
        """Decide among arms (K,d) by noise[t], and write log p to law (K,)."""
        arm: int = self._following(arms).decide(arms, noise, t, law)
        return arm

    def draw(self, arms: Floats, noise: Floats, t: int) -> Any:
        """The same as the core's `draw`."""
        if not arms.flags.carray:
            raise TypeError("arms must be in the form of validation.for_kernels")
        return self._following(arms).draw(arms, noise, t)

    def _following(self, arms: Floats) -> Any:
        models_of("arms", arms, self.state)
        if self.parts is not self.state.parts():
            self._bind()
        return self.core

    def learn(self, features: bytes, reward: float, time: float | None = None) -> None:
        """Absorb the reward of one arm (d,)."""
        models = models_of("features", np.frombuffer(features)[None], self.state)
        if models > self.state.room:
            self.state.make_room(models)
        if self.parts is not self.state.parts():
            self._bind()
        self.core.learn(features, reward, time)
