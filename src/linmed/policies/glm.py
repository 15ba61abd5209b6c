"""Policies for clicks and counts: they believe in a generalised linear model of the rewards."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import LedState, Policy, Properties, parameter
from linmed.policies.compiled import CompiledPolicy, EstimatePolicy, Floor, Mixed
from linmed.policies.linmed import ByRoute, MedParameters
from linmed.policies.posterior import Posterior
from linmed.policies.ridge import LEARNED
from linmed.policies.thompson import Sampled
from linmed.validation import Bools, Floats, Ints

FAMILIES = {"logistic": 0, "poisson": 1, "gaussian": 2}
"""The numbers that stand for them in states and in core/links.hpp."""
UNITS = {"logistic": " in log-odds", "poisson": " in logarithms of the rate", "gaussian": ""}
"""Of what is linear in the features."""
INTERCEPT = 5.0
"""What the intercept is thought to be as large as: click rates from 0.7 % to 99.3 % are within it."""

LEAST_DELTA = 1e-6
"""The certified set takes the least curvature within the set of this δ, and is proved for no smaller. Both
rest on the same bets: where the set of a larger δ holds, this one does, so no part of δ is spent on it."""

_NUMBER = 2
"""The scale of Thompson sampling that is a number: see core/thompson.hpp."""


class Glm(NamedTuple):
    """The arrays of generalised linear models, in the order in which the core takes them (core/glm.hpp).

    E experts in every replica: row r·E + e is expert e of replica r.
    """

    theta: Floats  # (R·E,d) θ̂
    intercept: Floats  # (R·E,) c
    count: Ints  # type: ignore[assignment]  # (R·E,) rewards absorbed
    gram: Floats  # (R·E,d+1,d+1) H, lower triangle, the intercept first …
    gram_low: Floats  # … and what it has lost to rounding
    inverse: Floats  # (R·E,d,d) the features' block of H⁻¹
    cross: Floats  # (R·E,d) the intercept's row of it …
    corner: Floats  # (R·E,) … and its own entry
    logdet: Floats  # (R·E,) log(det H / det H₀)
    excess: Floats  # (R·E,) what the certified radius sums
    surprise: Floats  # (R·E,) −log of the prior's weight
    told: Floats  # (R·E,6) family, τ, 1 with an intercept, which curvature, S, a bound on the intercept
    leader: Ints  # (R,) the expert that decides, the first among equals


CERTIFIED = 3
"""Of `told`: which curvature."""


class GlmState(LedState, Glm):  # type: ignore[misc]
    """Generalised linear models in every replica: all arrays but `leader` are (R, E, …), one for each prior.

    `theta`, `intercept` and `count` are those of the expert that decides.
    """

    __slots__ = ()

    @property
    def intercept(self) -> Floats:
        """Their intercepts (R,), in the units of z."""
        intercept: Floats = self.leading("intercept")
        return intercept


def one_glm(rows: Sequence[NDArray[Any]]) -> GlmState:
    """Make a state of one estimate in every replica, from its arrays (R, …) but `leader`."""
    stacked = [np.expand_dims(row, 1) for row in rows]
    return GlmState._make([*stacked, np.zeros(len(rows[0]), dtype=np.int64)])


class Laplace(NamedTuple):
    """What the leaders believe of θ*: N(θ̂, precision⁻¹), whatever the intercept is."""

    theta: Floats  # (R,d)
    count: Ints  # type: ignore[assignment]  # (R,)
    gram: Floats  # (R,d,d) the precision
    inverse: Floats  # (R,d,d)


@dataclass(frozen=True, kw_only=True)
class GLMPolicy(EstimatePolicy, CompiledPolicy):
    """A policy that believes in a generalised linear model: rewards of mean μ(c + ⟨a,θ*⟩).

    One pass, O(d²) a reward, no data kept: see core/glm.hpp. The rule is what subclasses add.

    What it is told: the `family` of rewards; `norm_bound` is S, a bound on ‖θ*‖, `ridge` is λ and `delta` the
    δ of the radius; `confidence` says which set, `intercept` whether there is a base rate, and `sigma` how
    large the noise of "gaussian" rewards is. `label` is its name in legends.

    >>> from linmed.policies import GLMPolicy, LogisticMED
    >>> policy = LogisticMED(norm_bound=2.0)
    >>> isinstance(policy, GLMPolicy), policy.priors, policy.proved
    (True, (0.25,), False)

    >>> policy.learns_ridge, policy.lam
    (False, 0.25)
    >>> state = policy.start(replicas=1, dim=2)
    >>> policy.radius(state).shape, policy.estimate(state).theta, policy.noise_level(state)
    ((1,), array([[0., 0.]]), array([1.]))
    """

    family: Literal["logistic", "poisson", "gaussian"] = "logistic"
    """Rewards: "logistic" clicks, 0 or 1 or between; "poisson" counts; "gaussian" numbers, as LinMED has."""
    norm_bound: float | Literal["unknown"] = parameter("unknown", validation.positive, word="unknown")
    """S: guessed bound on ‖θ*‖ in the units of z, for clicks log-odds."""
    ridge: float | Literal["learned"] | None = parameter(None, validation.positive, word="learned")
    """λ, the precision of the prior on θ*; None means 1/S². Where S is unknown it is "learned": of five, in
    units of ‖a‖² of the first arm learned from, the weakest decides that recent rewards do not refute."""
    delta: float | None = parameter(None, validation.failure_rate)
    """δ of the confidence radius; None means 1/(t+1) after t rewards."""
    confidence: Literal["laplace", "certified"] = parameter(
        "laplace", validation.option, ("laplace", "certified")
    )
    """"laplace": the quadratic model of the likelihood-ratio set, without proof; "certified": a larger one
    that has a proof, for a known norm_bound."""
    intercept: bool = parameter(True, validation.flag)
    """Whether all rewards share a base rate that is learned apart from the features."""
    sigma: float = parameter(1.0, validation.positive)
    """σ of the "gaussian" family; the others have none."""
    learns_in_core: ClassVar[bool] = True
    compiled_rounds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("family", validation.option("family", self.family, self.families))
        validation.positive("ridge (1 / norm_bound²)", self.lam)
        if self.sigma != 1.0 and self.family != "gaussian":
            raise validation.BadValue(
                "sigma",
                f"sigma goes with family='gaussian': the mean of {self.family} rewards tells their spread",
            )
        if self.ridge == "learned" and self.norm_bound != "unknown":
            raise validation.BadValue(
                "norm_bound",
                "norm_bound follows from the ridge where that is learned: leave it out, "
                f"got {self.norm_bound!r}",
            )
        if self.confidence == "certified" and self.delta is not None and self.delta < LEAST_DELTA:
            least = f"at least {LEAST_DELTA:g} for confidence='certified'"
            raise validation.BadValue("delta", f"delta must be {least}, got {self.delta!r}")
        if self.confidence == "certified" and isinstance(self.norm_bound, str):
            raise validation.BadValue("norm_bound", "norm_bound must be a number for confidence='certified'")

    families: ClassVar[tuple[str, ...]] = tuple(FAMILIES)

    @property
    def learns_ridge(self) -> bool:
        """Whether several priors on θ* stand beside each other."""
        return self.ridge == "learned" or (self.ridge is None and self.norm_bound == "unknown")

    @property
    def priors(self) -> tuple[float, ...]:
        """λ of every expert; where it is learned, in units of ‖a‖² of the first arm learned from."""
        if self.learns_ridge:
            return LEARNED
        if self.ridge is not None:
            return (float(self.ridge),)
        return (1.0 / float(self.norm_bound) ** 2,)

    @property
    def lam(self) -> float:
        """λ; of several the smallest."""
        return min(self.priors)

    @property
    def proved(self) -> bool:
        """Whether the confidence set has its guarantee."""
        return self.confidence == "certified"

    @property
    def scale_free(self) -> bool:
        """Clicks and counts have no other unit."""
        return False

    @property
    def belief(self) -> Callable[..., Any]:
        """Makes the core's belief from the arrays of a state."""
        return core.Glm  # type: ignore[no-any-return]

    @cached_property
    def confidence_set(self) -> Any:
        """β = prior + 2ℓ + what was seen."""
        log_inverse_delta = -1.0 if self.delta is None else -math.log(self.delta)
        return core.GlmSet(self.confidence == "certified", log_inverse_delta, self._prior)

    @property
    def _prior(self) -> float:
        """ρ: what the priors have in β."""
        norm = self.norm_bound
        return (1.0 if isinstance(norm, str) else self.lam * norm**2) + float(self.intercept)

    def start(self, replicas: int, dim: int) -> GlmState:
        """Begin with H = λI and, for the intercept, 1/25, in every replica."""
        priors = np.array(self.priors)
        shape, D = (replicas, len(priors)), dim + 1
        base = INTERCEPT**-2 if self.intercept else 1.0
        gram, inverse = np.zeros((*shape, D, D)), np.zeros((*shape, dim, dim))
        gram[..., 0, 0] = base
        inside = np.arange(dim)
        gram[..., inside + 1, inside + 1] = priors[:, None]
        inverse[..., inside, inside] = 1.0 / priors[:, None]
        told = np.empty((*shape, 6))
        norm = 0.0 if isinstance(self.norm_bound, str) else self.norm_bound
        within = self._prior - 2.0 * math.log(LEAST_DELTA) if self.proved else 0.0
        told[:] = FAMILIES[self.family], self.sigma**-2, self.intercept, within, norm, INTERCEPT
        return GlmState(
            theta=np.zeros((*shape, dim)), intercept=np.zeros(shape), count=np.zeros(shape, dtype=np.int64),
            gram=gram, gram_low=np.zeros_like(gram), inverse=inverse, cross=np.zeros((*shape, dim)),
            corner=np.full(shape, 1.0 / base), logdet=np.zeros(shape), excess=np.zeros(shape),
            surprise=np.zeros(shape), told=told, leader=np.zeros(replicas, dtype=np.int64),
        )  # fmt: skip

    @property
    def any_reward(self) -> bool:
        """Of numbers alone."""
        return self.family == "gaussian"

    def accepts(self, rewards: Floats) -> Bools:
        """Tell which are of the family."""
        if self.family == "logistic":
            within: Bools = (rewards >= 0.0) & (rewards <= 1.0)
        elif self.family == "poisson":
            within = (rewards >= 0.0) & (rewards == np.floor(rewards))
        else:
            within = super().accepts(rewards)
        return within

    def check_rewards(self, rewards: Floats | float) -> None:
        """Raise what names `reward` unless all are of the family."""
        if isinstance(rewards, float) and (rewards in (0.0, 1.0) or self.family == "gaussian"):
            return  # numpy takes longer over a single click than a decision takes
        values = np.asarray(rewards)
        accepted = self.accepts(values)
        if not accepted.all():
            wrong = values[~accepted].flat[0] if values.ndim else values
            right = "between 0 and 1, as clicks are"
            if self.family == "poisson":
                right = "0, 1, 2, …, as counts are"
            message = f"reward must be {right}: {self.name} takes no others, got {float(wrong)!r}"
            raise validation.BadValue("reward", message)

    def estimate(self, state: GlmState) -> Laplace:
        """Copy what the experts that decide believe of θ*."""
        gram, inverse = state.leading("gram"), state.leading("inverse")
        precision = np.empty_like(inverse)
        core.precisions(gram, precision)
        return Laplace(state.theta, state.count.copy(), precision, inverse)

    def _joint_gram(self, state: GlmState) -> Floats | None:
        """Give H of the intercept and θ (R,1 + d,1 + d), lower triangle; None without an intercept."""
        return state.leading("gram") if self.intercept else None

    def radius(self, state: GlmState) -> Floats:
        """Compute √β, one per replica (R,)."""
        out = np.empty(len(state.leader))
        leaders = *(state.leading(name) for name in Glm._fields[:-1]), np.zeros_like(state.leader)
        core.radii(core.Glm(*leaders), self.confidence_set, out)
        return out

    def noise_level(self, state: GlmState) -> Floats:
        """Give 1 (R,): the curvature of the losses is in units of their noise."""
        return np.ones(len(state.leader))

    def greedy(self) -> Policy:
        """Make the `GLMMED` that always plays what looks best, with the same model."""
        belief = {
            name: getattr(self, name) for name in ("family", "norm_bound", "ridge", "intercept", "sigma")
        }
        shares = {"alpha_emp": 1.0, "alpha_opt": 0.0, "label": "Greedy"}
        return self.from_dict({"policy": "GLMMED", **belief, **shares})

    def _grounds(self) -> tuple[list[str], str | None]:
        linear = {"logistic": "log-odds of a click", "poisson": "logarithms of rates", "gaussian": "rewards"}
        assumes = [f"{linear[self.family]} are linear in the features"]
        if self.family == "gaussian":
            assumes.append(f"their noise is sub-Gaussian with sigma={self.sigma:g}")
        if not isinstance(self.norm_bound, str):
            assumes.append(f"the length of theta is at most norm_bound={self.norm_bound:g}")
        if self.intercept:
            assumes.append(f"the intercept is at most {INTERCEPT:g} in size")
        doubt = 'the set is the quadratic model of a likelihood (confidence="certified" has a proof)'
        return assumes, None if self.proved else doubt

    def posterior(self, state: GlmState) -> Posterior:
        """Give μ(z) and μ(z ± √β‖(1, a)‖ in H⁻¹), with z = c + ⟨θ̂, a⟩."""
        level, cross, corner = 0.0, None, 0.0
        if self.intercept:
            level, corner = float(state.intercept[0]), float(state.leading("corner")[0])
            cross = state.leading("cross")[0]
        n = int(state.count[0])
        return Posterior(
            theta=state.theta[0], inverse=state.leading("inverse")[0], radius=float(self.radius(state)[0]),
            count=n, grounds=self.grounds(n), intercept=self.intercept, level=level, cross=cross,
            corner=corner, link=self.mean, unit=UNITS[self.family],
        )  # fmt: skip

    def mean(self, z: Floats) -> Floats:
        """Compute μ(z): the expected reward at these."""
        if self.family == "logistic":
            e = np.exp(-np.abs(z))
            return np.where(z >= 0.0, 1.0, e) / (1.0 + e)
        return np.exp(np.minimum(z, 709.0)) if self.family == "poisson" else z


@dataclass(frozen=True, kw_only=True)
class GLMMED(MedParameters, Mixed, GLMPolicy):
    """LinMED's rule for clicks and counts: p_t ∝ q_t f_t, log f_t = −2 kl(z_a, z_â) / (β μ′(z_a) ‖â − a‖²).

    z = c + ⟨a,θ̂⟩ is an arm's natural parameter and kl the divergence between rewards of two of them: for
    "gaussian" rewards this is LinMED with confidence="mixture". The norm is that of H⁻¹, the inverse of the
    losses' curvature.

    >>> GLMMED(norm_bound=3.0).name, GLMMED(family="poisson").name
    ('GLMMED-90 (norm_bound=3.0)', 'GLMMED-90 (family=poisson)')

    `alpha_emp`, `alpha_opt`, `version`, `design`, `explore`, `ties` and `floor` are as of `LinMED`; the
    others are those of `GLMPolicy`.

    >>> from linmed import Agent
    >>> agent = Agent(GLMMED(family="poisson"), dim=1)
    >>> agent.observe([[1.0], [0.0]] * 50, [6, 2] * 50)
    >>> agent.mean([[1.0], [0.0]]).mean.round(1)
    array([6., 2.])
    """

    explore: bool = False
    """The half-step on the arm of largest leverage, here that of its features in H⁻¹."""
    ties: Literal["first", "even"] = "even"
    """Who gets α_emp while all arms look equally good, as before any reward: all evenly, or the first."""

    designs: ClassVar[tuple[str, ...]] = ("approx", "optimal")
    properties: ClassVar[Properties] = Properties("linmed, docs/clicks.md")

    @property
    def rule(self) -> Any:
        """q_t as of LinMED."""
        return core.MedRule(*self._med_parameters)


@dataclass(frozen=True, kw_only=True)
class LogisticMED(GLMMED):
    """`GLMMED` for clicks. With nothing told, the base rate and the ridge are learned.

    >>> LogisticMED().name
    'LogisticMED-90'

    The parameters are those of `GLMMED` and `GLMPolicy`.

    >>> from linmed import Agent
    >>> agent = Agent(LogisticMED(), dim=1)
    >>> agent.observe([[1.0], [0.0]] * 100, [1, 0, 0, 0] * 50)
    >>> agent.mean([[1.0], [0.0]]).mean.round(1)
    array([0.5, 0. ])
    """

    families: ClassVar[tuple[str, ...]] = ("logistic",)


@dataclass(frozen=True, kw_only=True)
class LogisticUCB(Floor, GLMPolicy):
    """Optimism for clicks: play argmax_a c + ⟨a,θ̂⟩ + √β ‖(1, a)‖ in H⁻¹, the largest rate of the same set.

    Deterministic: without a `floor` its logs say nothing about arms it did not play.

    `floor` is a share ε for all arms alike; the other parameters are those of `GLMPolicy`.

    >>> from linmed import Agent, LogisticUCB
    >>> agent = Agent(LogisticUCB(floor=0.1), dim=1)
    >>> agent.observe([[1.0], [0.0]] * 100, [1, 0, 0, 0] * 50)
    >>> agent.probabilities([[1.0], [0.0]]).round(3)
    array([0.95, 0.05])
    """

    families: ClassVar[tuple[str, ...]] = ("logistic",)
    properties: ClassVar[Properties] = Properties(
        "Filippi, Cappé, Garivier & Szepesvári 2010; Faury et al. 2022",
        minimax="d √n, for their radii",
        computable="degenerate: 1 on one arm",
        all_arms="no (yes with floor > 0)",
        randomised=False,
    )

    @property
    def rule(self) -> Any:
        """The arm of the largest upper confidence bound."""
        return core.OfulRule(self.floor)


@dataclass(frozen=True, kw_only=True)
class LogisticTS(Sampled, GLMPolicy):
    """Thompson sampling for clicks: draw θ̃ ~ N(θ̂, H⁻¹), the Laplace posterior, and play argmax_a ⟨θ̃, a⟩.

    Its probabilities are computed as LinTS computes them.

    `propensity` and `floor` are as of `LinTS`; the other parameters are those of `GLMPolicy`.

    >>> from linmed import Agent, LogisticTS
    >>> agent = Agent(LogisticTS(), dim=1)
    >>> agent.observe([[1.0], [0.0]] * 100, [1, 0, 0, 0] * 50)
    >>> bool(agent.probabilities([[1.0], [0.0]])[0] > 0.99)
    True

    >>> agent.policy.spread(agent.state)
    array([1.])
    """

    families: ClassVar[tuple[str, ...]] = ("logistic",)
    properties: ClassVar[Properties] = Properties(
        "Chapelle & Li 2011",
        computable="normal CDF (K = 2), angular integral (plane), ray integration otherwise",
        all_arms="corners of the hull (all with floor > 0)",
    )

    @property
    def rule(self) -> Any:
        """Draw θ̃ and play its best arm; no probability is computed."""
        return core.ThompsonRule(_NUMBER, 1.0, 0.0, -1.0, self.pivot, self.floor)

    def spread(self, state: GlmState) -> Floats:
        """Give 1: the curvature of the losses is in units of their noise."""
        return np.ones(len(state.leader))


@dataclass(frozen=True, kw_only=True)
class CatalogueGLMMED(ByRoute, GLMPolicy):
    """`CatalogueMED` for clicks and counts: GLMMED's q_t, and its f_t as the probability that an arm is kept.

    f_t = exp(−2 kl(z_a, z_â) / (β μ′(z_a) ‖â − a‖²)) needs of an item no more than z_a = c + ⟨a,θ̂⟩ and its
    distance to â, so the probability of a route is known as it is for numbers.

    >>> CatalogueGLMMED().name, CatalogueGLMMED(family="poisson", alpha_emp=0.5).name
    ('CatalogueGLMMED-90', 'CatalogueGLMMED-50 (family=poisson)')

    The parameters are those of `GLMMED`, but for `floor`, and of `GLMPolicy`.

    >>> from linmed import Agent
    >>> from linmed.features import Catalogue
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> decision = Agent(CatalogueGLMMED(), catalogue=teas, seed=7).decide()
    >>> decision.item, round(decision.probability, 3)
    ('mint', 0.5)
    """

    explore: bool = False
    """As of `GLMMED`."""
    ties: Literal["first", "even"] = "even"
    """As of `GLMMED`."""

    properties: ClassVar[Properties] = Properties("GLMMED by one trial of its rejection")
