"""Models per item: `Disjoint`, one θ for each, and `Hybrid`, with a part that all share (Li et al. 2010)."""

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import Choice, Noise, Policy, Properties, decisions, entries
from linmed.policies.glm import GLMPolicy, LogisticTS, one_glm
from linmed.policies.igw import SquareCB
from linmed.policies.memories import draw_from_mixture, mixture
from linmed.policies.model_state import FIRST_ROOM, MOST_BYTES, ModelsState, models_of
from linmed.policies.posterior import Capabilities, Posterior, Prediction
from linmed.policies.ridge import ExpertState, RidgePolicy, RidgeState, one_expert
from linmed.policies.thompson import LinTS
from linmed.policies.ucb import Pinpoint
from linmed.policies.wrapper import Wrapper
from linmed.validation import Floats, Ints

_CHUNK = 64  # arms that are compared with the best one at a time


@dataclass(frozen=True, kw_only=True)
class ModelPolicy(Wrapper):
    """The base policy, around a model for every item: what `Disjoint` and `Hybrid` have in common.

    A rule that asks the belief for what it looks at (`asks`) decides in the core. Thompson sampling and
    Pinpoint multiply a θ̂ with arms: they are shown an estimate with the same means and distances, of K
    dimensions for K arms.
    """

    @property
    @abstractmethod
    def shared_features(self) -> int:
        """m: how many columns of an arm all models share."""

    @cached_property
    def asked(self) -> RidgePolicy | GLMPolicy:
        """The policy that decides for one estimate: the base one, or of several memories the one inside."""
        asked: Any = getattr(self.base, "asked", self.base)
        return asked  # type: ignore[no-any-return]

    def _refuse(self, base: Policy) -> None:
        inside = getattr(base, "asked", base)
        if base.capabilities.per_item or not (
            isinstance(inside, (RidgePolicy, GLMPolicy)) and base.learns_in_core
        ):
            raise validation.BadValue(
                "base",
                "base must be a policy without another, or Forgetful(…), with a ridge estimate as LinMED or "
                f"a model of clicks or counts as LogisticMED, got {base.name}",
            )
        if inside.capabilities.by_route:
            raise validation.BadValue(
                "base",
                "base must be LinMED(…) or GLMMED(…): routes follow from one θ̂ for all items, "
                f"got {base.name}",
            )
        asks = getattr(getattr(inside, "rule", None), "asks", False)
        if not asks and not isinstance(inside, (LinTS, LogisticTS, Pinpoint)):
            raise validation.BadValue(
                "base",
                "base must be LinMED, OFUL, LinUCB, LinIMED, RandUCB, LinTS, Pinpoint, SquareCB, Greedy, "
                "Uniform or one for clicks or counts, whose rules need no more of items than means and "
                f"distances, got {base.name}",
            )
        if isinstance(inside, RidgePolicy) and inside.norm_bound == "unknown" and inside.ridge != "learned":
            raise validation.BadValue(
                "base",
                "base: norm_bound must be a number, for there may always be another item of which nothing is "
                f'known: no bound on ‖θ‖ follows from rewards; or say ridge="learned", got {base.name}',
            )
        counting = isinstance(inside, SquareCB) and inside.horizon is not None and inside.gamma is None
        if counting or (isinstance(inside, LinTS) and inside.scale == "agrawal-goyal"):
            raise validation.BadValue(
                "base",
                "base must not compute its exploration from the number of features, which grows with the "
                f"items (scale='agrawal-goyal' of LinTS, horizon of SquareCB), got {base.name}",
            )

    @property
    def _mixes(self) -> bool:
        """Whether all memories of the base policy decide."""
        return getattr(self.base, "combine", "heaviest") == "mixture"

    @cached_property
    def _asks(self) -> bool:
        """Whether the rule asks for what it looks at."""
        return bool(self.rule.asks)

    @cached_property
    def compiled_rounds(self) -> bool:  # type: ignore[override]
        """Whether one estimate decides, by such a rule."""
        return self._asks and not self._mixes

    takes_worth = Wrapper.takes_worth

    @property
    def law_in_core(self) -> bool:  # type: ignore[override]
        """Where it does."""
        return self.compiled_rounds

    @property
    def noise(self) -> Noise:  # type: ignore[override]
        """Uniforms: a draw of θ̃ takes as many normals as there are arms, which nobody knows beforehand."""
        return "uniform"

    def noise_size(self, dim: int) -> int:
        """Count one uniform, or two to make normals of, and one for the memory if all of them decide."""
        return (1 if self.base.noise == "uniform" else 2) + (self._mixes)

    def draw_noise(self, rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> Floats:
        """Draw the uniforms."""
        return Policy.draw_noise(self, rng, shape, dim)

    @property
    def belief(self) -> Any:
        """That of the base policy, which takes the arrays of models too."""
        return self.base.belief  # type: ignore[attr-defined]

    @cached_property
    def confidence_set(self) -> Any:
        """That of the base policy, of all models together."""
        return self.base.confidence_set  # type: ignore[attr-defined]

    @property
    def rule(self) -> Any:
        """The rule of the base policy."""
        return self.base.rule  # type: ignore[attr-defined]

    def start(self, replicas: int, dim: int) -> ModelsState:
        """Begin with the priors in every replica, without a model."""
        m = self.shared_features
        c = dim - 1 - m
        if c < 1:
            raise validation.BadValue(
                "dim",
                f"dim must be at least {m + 2} for {self.name}: the number of the model"
                f"{f', {m} shared' if m else ''} and one or more features of its own, got {dim}",
            )
        shared: Any = self.base.start(replicas, m)
        priors = shared.priors if self.capabilities.drift else self.asked.priors
        return ModelsState.begin(shared, priors, 1 + m + isinstance(self.asked, GLMPolicy), c)

    def _make_room(self, state: ModelsState, features: Floats) -> None:
        models = models_of("features", features, state)
        if models > state.room:
            state.make_room(models)

    def live(self, state: ModelsState) -> "ModelsLive":
        """Make the core's agent, which is made again when the state has grown."""
        return ModelsLive(self, state)

    def _rounds(self, state: ModelsState, arms: Floats, *others: Any) -> None:
        models = models_of("arms", arms, state)
        grows = self.compiled_rounds and len(others[0]) > 0 and models > state.room
        if grows:
            state.make_room(models)
        super()._rounds(state, arms, *others)
        if grows:  # for all that might have been learned from
            state.make_room(state.learned)

    def shown(self, state: ModelsState, arms: Floats) -> tuple[Any, Floats]:
        """A state of the policy that is asked, and arms (R,K,K), with the means and distances of these."""
        worth = arms[:, :, state.dim :]  # values and costs, if there are any
        arms = validation.for_kernels(arms[:, :, : state.dim])
        mean, gram = self.look(state, arms, distances=True)
        (decided, count), lam = mean.shape, self.asked.lam
        theta, out = np.empty_like(mean), np.empty_like(gram)
        core.coordinates(arms, mean, gram, lam, out, theta)
        if worth.size:
            out = np.concatenate([out, np.broadcast_to(worth, (decided, *worth.shape[1:]))], axis=2)
        nothing, identity = np.zeros_like(mean), np.broadcast_to(np.eye(count), gram.shape)

        def own(name: str) -> Any:
            rows = state.leading(name)
            return np.repeat(rows, decided, axis=0) if len(rows) < decided else rows.copy()

        if isinstance(self.asked, GLMPolicy):
            H = np.zeros((decided, count + 1, count + 1))
            H[:, 0, 0], H[:, 1:, 1:] = 1.0, lam * identity
            zero, one, told = np.zeros(decided), np.ones(decided), own("told")
            if worth.size:  # for which the intercept matters: it is in these arms, and there is no other
                H[:, 0, 0], one, told[:, 2] = 1e300, zero, 0.0
            rows = (
                theta, zero, own("count"), H, np.zeros_like(H), identity / lam, nothing, one,
                own("logdet"), own("excess"), zero, told,
            )  # fmt: skip
            return one_glm(rows), out
        estimate = RidgeState(
            theta, own("count"), lam * identity, np.zeros_like(gram), identity / lam, nothing, nothing,
            own("logdet"), own("rss"), own("leveraged"),
        )  # fmt: skip
        return (one_expert(estimate, own("told")[:, :3]) if self.asked.ridge == "learned" else estimate), out

    def _drawn(self, noise: Floats, count: int) -> Floats:
        """Turn the uniforms into what the base policy draws from, for `count` arms."""
        if self.base.noise == "uniform":
            return noise
        normals = np.empty((len(noise), self.base.noise_size(count)))
        core.more_normals(np.ascontiguousarray(noise).view(np.uint64), normals)
        return normals

    def _law(self, state: ModelsState, arms: Floats) -> Floats:
        """Compute log p(a) of every arm by the leading estimates."""
        if self._asks:
            return super().log_probabilities(state, arms)
        return self.asked.log_probabilities(*self.shown(state, arms))

    def _choice(self, state: ModelsState, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica by the leading estimates."""
        if self._asks:
            return self._draw_in_core(state, arms, noise)
        return self.asked.choose(*self.shown(state, arms), self._drawn(noise, arms.shape[1]))

    def log_probabilities(self, state: ModelsState, arms: Floats) -> Floats:
        """Compute log p(a) of every arm.  arms (R,K,d) or (1,K,d) → (R,K)."""
        return mixture(state, arms, self._law) if self._mixes else self._law(state, arms)

    def choose(self, state: ModelsState, arms: Floats, noise: Floats) -> Ints:
        """Draw one arm per replica."""
        if self._mixes:
            return draw_from_mixture(state, arms, noise, self._choice)
        return self._choice(state, arms, noise)

    def decide(self, state: ModelsState, arms: Floats, noise: Floats) -> Choice:
        """Draw one arm per replica and say how probable it was."""
        if self._mixes:
            arm, log_p = self.choose(state, arms, noise), self.log_probabilities(state, arms)
            return Choice(arm, entries(log_p, arm), log_p, self.features(state, arms, arm))
        if self._asks:
            return super().decide(state, arms, noise)
        choice = self.asked.decide(*self.shown(state, arms), self._drawn(noise, arms.shape[1]))
        return choice._replace(features=self.features(state, arms, choice.arm))

    def noise_level(self, state: ModelsState) -> Floats:
        """σ as it was told, or an estimate of it (R,); 1 where V is in its units."""
        level: Floats = self.base.noise_level(state.shared)  # type: ignore[attr-defined]
        return level

    def radius(self, state: ModelsState) -> Floats:
        """√β of all models together, one per replica (R,)."""
        out = np.empty(len(state.count))
        core.radii(self.bind(state), self.confidence_set, out)
        if isinstance(state.shared, ExpertState):
            out[state.leading("told")[:, 0] < 0.0] = np.inf  # in what unit λ is, nobody knows yet
        return out

    def look(self, state: ModelsState, arms: Floats, distances: bool = False) -> tuple[Floats, Floats]:
        """⟨θ̂, a⟩ (R,K), and every a·V⁻¹·a′ (R,K,K) or, without `distances`, each ‖a‖² in V⁻¹ (R,K,1).

        Those have the intercept in them, where the base policy has one.
        """
        models_of("arms", arms, state)
        arms = arms[:, :, : state.dim]
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
        """Make the same policy around the base policy with this δ."""
        return replace(self, base=self.base.with_delta(delta))

    def propensity_error(self, state: ModelsState, arms: Floats) -> Floats | None:
        """Estimate the standard errors as the base policy does."""
        return None if self._asks else self.asked.propensity_error(*self.shown(state, arms))

    def watching(self, state: ModelsState) -> tuple[Any, Any]:
        """Return the base policy and the shared part of the state."""
        return self.base, state.shared

    def posterior(self, state: ModelsState) -> "ModelsPosterior":
        """⟨θ̂, a⟩ ± √β‖a‖ in V⁻¹ by the model of each arm."""
        shared = self.base.posterior(state.shared)
        own = {field.name: getattr(shared, field.name) for field in fields(Posterior)}
        own |= {"inverse": np.empty((0, 0)), "radius": float(self.radius(state)[0]), "sums": None}
        return ModelsPosterior(**own, policy=self, state=state)

    def like(self, arms: Floats) -> Floats:
        """Number the arms by the first few models in turn."""
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
        """Bound the gains over arm `best`, with a part of the arms at a time."""
        gains = np.empty(len(arms))
        for start in range(0, len(arms), _CHUNK):
            some = np.concatenate([arms[best : best + 1], arms[start : start + _CHUNK]])
            means, products = self.policy.look(self.state, some[None], distances=True)
            mean, gram = means[0], products[0]
            apart = gram.diagonal()[1:] + gram[0, 0] - 2.0 * gram[0, 1:]
            z = mean[1:] - mean[0] + self._reach(apart)
            if self.link is not None:
                here = mean[:1] + self.level
                z = self.link(here + z) - self.link(here)
            gains[start : start + _CHUNK] = z
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


class ModelsLive:
    """The core's agent on the arrays of a state, and another whenever the state has others."""

    def __init__(self, policy: ModelPolicy, state: ModelsState) -> None:
        self.policy, self.state = policy, state
        self._bind()

    def _bind(self) -> None:
        policy, self.parts = self.policy, self.state.parts()
        self.core = core.Live(policy.bind(self.state), policy.confidence_set, policy._deciding)

    def decide(self, arms: Floats, noise: Floats, t: int, law: Floats, *worth: Any) -> int:
        """Decide among arms (K,d) by noise[t], and write log p to law (K,)."""
        arm: int = self.following(arms).decide(arms, noise, t, law, *worth)
        return arm

    def draw(self, arms: Floats, noise: Any, t: int, *worth: Any) -> Any:
        """Draw as the core's agent does."""
        if arms.dtype is not validation.FLOAT64 or not arms.flags.carray:
            raise TypeError("arms must be in the form of validation.for_kernels")
        return self.following(arms).draw(arms, noise, t, *worth)

    def following(self, arms: Floats) -> Any:
        """Find the core's agent of these arms."""
        models_of("arms", arms, self.state)
        if self.parts is not self.state.parts():
            self._bind()
        return self.core

    def learn(self, features: bytes, *reward: Any) -> None:
        """Learn as the core's agent does, from one arm (d,)."""
        self.policy._make_room(self.state, np.frombuffer(features)[None])
        if self.parts is not self.state.parts():
            self._bind()
        self.core.learn(features, *reward)
