"""LinMED, the linear version of minimum empirical divergence (the paper's Algorithm 1), and its relatives."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from linmed import validation
from linmed.core import core
from linmed.policies.base import MOST, Policy, Properties, State, parameter
from linmed.policies.compiled import CompiledPolicy, Mixed
from linmed.policies.posterior import Capabilities
from linmed.policies.ridge import RidgePolicy, and_more
from linmed.validation import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class MedParameters(Policy):
    """q_t = α_opt·(design) + α_emp·1{a = â} + (1 − α_opt − α_emp)/K."""

    alpha_emp: float = parameter(0.9, validation.between, 0.0, 1.0)
    """α_emp: share of the empirically best arm."""
    alpha_opt: float | None = parameter(None, validation.between, 0.0, 1.0)
    """α_opt: share of the design; None means (1 − alpha_emp)/2, as in the paper."""
    version: Literal[0, 1] = parameter(0, validation.option, (0, 1))
    """0: the design is made for the arms rescaled by √f; 1: for the arms with f ≥ 1/e."""
    design: Literal["approx", "optimal", "warm"] = "approx"
    """The paper's ApproxDesign, the G-optimal design (certificate at most 1 + 1e-6), or an ApproxDesign that
    starts from the last one: much faster where many arms stay the same (see `optimality`)."""
    explore: bool = parameter(True, validation.flag)
    """The half-step on the arm of largest leverage."""
    ties: Literal["first", "even"] = parameter("first", validation.option, ("first", "even"))
    """Who gets α_emp while all arms look equally good, as before the first reward: the first of them, or all
    evenly, as if â were drawn among them."""

    designs: ClassVar[tuple[str, ...]] = ("approx", "optimal", "warm")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha_opt is not None and self.alpha_emp + self.alpha_opt > 1.0 + 1e-12:
            raise validation.BadValue(
                "alpha_opt",
                f"alpha_emp + alpha_opt must be at most 1, got {self.alpha_emp!r} + {self.alpha_opt!r}",
            )
        self._set("design", validation.option("design", self.design, self.designs))
        if self.design == "warm" and self.version == 1:
            raise validation.BadValue(
                "design", "design must be 'approx' or 'optimal' with version=1, got 'warm'"
            )

    @property
    def design_share(self) -> float:
        """α_opt."""
        return (1.0 - self.alpha_emp) / 2.0 if self.alpha_opt is None else self.alpha_opt

    @property
    def _med_parameters(self) -> tuple[Any, ...]:
        """As the core's `MedRule` takes them."""
        shares = self.alpha_emp, self.design_share, self.version
        return *shares, self.design == "optimal", self.explore, self.ties == "even"

    def derived_name(self) -> str:
        """Say LinMED-90 and the like where alpha_opt = (1 − alpha_emp)/2."""
        name = type(self).__name__
        if abs(self.design_share - (1.0 - self.alpha_emp) / 2.0) < 1e-12:
            return f"{name}-{100 * self.alpha_emp:g}" + self.describe("alpha_emp", "alpha_opt")
        return name + self.describe()


ROOM = 4
"""Arms of the last design to remember for each dimension."""


class WarmState(State, and_more("support size")):  # type: ignore[misc]
    """A ridge estimate in every replica, and the arms of the last design.

    `support` (R,4d) has −1 where there is none, `size` (R,) is τ, its counts, 0 before the first.
    """

    __slots__ = ()

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of every state; `support` has −1 where there is no arm."""
        return {**super().limits(), "support": (-1, MOST)}


@dataclass(frozen=True, kw_only=True)
class MedPolicy(Mixed, RidgePolicy, CompiledPolicy):
    """p_t(a) ∝ q_t(a) f_t(a) with f_t(a) = exp(−Δ̂² / (β ‖â − a‖²_{V⁻¹})); subclasses say what q_t is."""

    @property
    @abstractmethod
    def rule(self) -> Any:
        """q_t."""


@dataclass(frozen=True, kw_only=True)
class LinMED(MedParameters, MedPolicy):
    """LinMED: q_t = α_opt·(design) + α_emp·1{a = â} + (1 − α_opt − α_emp)/K, then p_t ∝ q_t f_t.

    While some arm has leverage above 1 (the event B_t), half of the mass goes to the arm of largest
    leverage. LinMED-99, -90 and -50 of the paper are alpha_emp = 0.99, 0.90, 0.50.

    >>> LinMED().name, LinMED(alpha_emp=0.5, version=1).name
    ('LinMED-90', 'LinMED-50 (version=1)')

    >>> from linmed import Agent, LinMED
    >>> agent, arms = Agent(LinMED(sigma=0.3), dim=2, seed=1), [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> agent.observe(arms * 5, [0.9, 0.1, 0.6] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.958, 0.016, 0.026])

    Its own parameters are `alpha_emp` and `alpha_opt`, the two shares; `version`, how arms that look bad are
    kept out of the design; `design`, who makes it; `explore`, the half of the mass in B_t; `ties`, who
    gets α_emp while all arms look equally good: "first" is the paper's convention; and `floor`, a share ε
    for all arms alike. All others are those of `RidgePolicy`.

    >>> Agent(LinMED(ties="even", explore=False), dim=2).probabilities(arms).round(3)
    array([0.333, 0.333, 0.333])
    """

    properties: ClassVar[Properties] = Properties(
        "Balagopalan & Jun 2025",
        minimax="d √n",
        instance="d² log²(n) / Δ",
        paper_computable="yes",
        paper_all_arms="yes",
    )
    law_in_core: ClassVar[bool] = True
    takes_worth: ClassVar[bool] = True
    compiled_rounds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.design == "warm" and self.ridge == "learned":
            raise validation.BadValue(
                "design", "design must be 'approx' or 'optimal' with ridge='learned', got 'warm'"
            )

    def _refuse_intercept(self) -> None:
        super()._refuse_intercept()
        if self.design == "warm":
            raise validation.BadValue(
                "design", "design must be 'approx' or 'optimal' with an intercept, got 'warm'"
            )

    @property
    def rule(self) -> Any:
        """q_t as above."""
        return (core.WarmRule if self.design == "warm" else core.MedRule)(*self._med_parameters)

    @property
    def belief(self) -> Any:
        """A ridge estimate, with the arms of the last design where the next one starts from them."""
        return core.WarmRidge if self.design == "warm" else super().belief

    @property
    def remembers(self) -> bool:
        """The arms of the last design."""
        return self.design == "warm"

    def start(self, replicas: int, dim: int) -> Any:
        """Begin with V = λI in every replica, and no design yet."""
        state = super().start(replicas, dim)
        if self.design != "warm":
            return state
        support = np.full((replicas, ROOM * dim), -1, dtype=np.int64)
        return WarmState._make([*state, support, np.zeros(replicas)])

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """Compute log p_t(a); asking changes nothing, and sets asked for together stay apart."""
        if self.design != "warm":
            return super().log_probabilities(state, arms)
        if len(state.count) == 1 and len(arms) > 1:
            return np.concatenate([self.log_probabilities(state, one[None]) for one in arms])
        apart = state._replace(support=state.support.copy(), size=state.size.copy())
        return super().log_probabilities(apart, arms)

    def optimality(self, state: Any) -> Floats:
        """Compute C_opt of the last design in every replica (R,), for design="warm"; NaN before the first.

        No leverage in V(q) exceeds C_opt d log d, Assumption 2 of the paper (C_opt where d = 1).

        >>> import numpy as np
        >>> from linmed import LinMED
        >>> policy, rng = LinMED(design="warm"), np.random.default_rng(0)
        >>> state, arms = policy.start(1, 3), rng.standard_normal((1, 50, 3))
        >>> choice = policy.decide(state, arms, noise=np.array([[0.5]]))
        >>> bool(policy.optimality(state)[0] < 4)
        True
        """
        if self.design != "warm":
            raise validation.BadValue("design", f"design must be 'warm' for this, got {self.design!r}")
        dim = state.theta.shape[1]
        unit = dim * math.log(dim) if dim > 1 else 1.0
        return np.where(state.size > 0.0, state.size / unit, np.nan)


NOTHING_TOLD = LinMED(sigma="unknown", ridge="learned", intercept=True, ties="even")
"""The policy of an agent and of a service's bandit that are given none: benchmarks/units.py says why."""


@dataclass(frozen=True, kw_only=True)
class LinMEDNoDesign(MedPolicy):
    """LinMEDNOPT of the paper's section 3: p_t ∝ f_t, no design, no exploration step.

    Its regret grows with the number of arms; it is here for that comparison.

    `floor` is a share ε for all arms alike; the other parameters are those of `RidgePolicy`.

    >>> from linmed import Agent, LinMEDNoDesign
    >>> agent, arms = Agent(LinMEDNoDesign(sigma=0.3), dim=2), [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    >>> agent.observe(arms * 5, [0.9, 0.1, 0.6] * 5)
    >>> agent.probabilities(arms).round(3)
    array([0.448, 0.207, 0.345])
    """

    properties: ClassVar[Properties] = Properties("Balagopalan & Jun 2025, sec. 3")

    @property
    def rule(self) -> Any:
        """q_t uniform."""
        return core.MedRule(0.0, 0.0, 0, False, False)


@dataclass(frozen=True, kw_only=True)
class ByRoute(MedParameters):
    """What decides among a catalogue by route, whatever it believes in."""

    designs: ClassVar[tuple[str, ...]] = ("approx", "optimal")

    @property
    def capabilities(self) -> Capabilities:
        """Declare those of every policy with an estimate; and it decides among a catalogue by route."""
        return super().capabilities._replace(by_route=True)

    @property
    def rule(self) -> Any:
        """q_t f_t, and the rest to â."""
        return core.OneTrialRule(*self._med_parameters)


@dataclass(frozen=True, kw_only=True)
class CatalogueMED(ByRoute, MedPolicy):
    """Propose an arm by LinMED's q_t and play it with probability f_t, else play the empirically best one, â.

    p_t(a) = q_t(a) f_t(a) for every a ≠ â. LinMED divides this by its sum over all arms, which alone needs
    all of them; here the rest goes to â. So p_t(a) = Z p(a) with LinMED's p and Z = Σ q_t f_t, at least
    α_emp, and â is played no less often. Among arms in a matrix it is a policy like any other;
    `linmed.catalogue_sampler` decides among millions of items, each with its exact probability.

    >>> CatalogueMED().name, CatalogueMED(alpha_emp=0.5, sigma=0.1).name
    ('CatalogueMED-90', 'CatalogueMED-50 (sigma=0.1)')

    The parameters are those of `LinMED`, but for design="warm" and `floor`, and of `RidgePolicy`.

    >>> from linmed import Agent
    >>> from linmed.features import Catalogue
    >>> teas = Catalogue.from_table([{"item_id": "oolong", "price": 4}, {"item_id": "mint", "price": 2}])
    >>> decision = Agent(CatalogueMED(), catalogue=teas, seed=7).decide()
    >>> decision.item, round(decision.probability, 3)
    ('oolong', 0.975)
    """

    properties: ClassVar[Properties] = Properties(
        "LinMED by one trial of its rejection", minimax="d √n, argued", instance="d² log²(n) / Δ, argued"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floor:
            raise validation.BadValue(
                "floor",
                "floor must be 0: CatalogueMED proposes any item already, more often with alpha_emp=0.5; "
                f"or use LinMED(floor=…), which looks at every item, got {self.floor:g}",
            )

    def _refuse_intercept(self) -> None:
        raise validation.BadValue(
            "intercept",
            "intercept must be False for CatalogueMED, whose routes know no mean of the arms played: add a "
            "constant column to the features instead",
        )


class Pulls(NamedTuple):
    """The arrays in the order in which the core takes them."""

    theta: Floats  # (R,d) means
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed
    pulls: Floats  # (R,d)
    totals: Floats  # (R,d)


class PullState(Pulls, State):
    """Pulls and reward sums of each arm; theta holds the means (0 where there is no pull yet)."""

    __slots__ = ()

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of every state; pulls are counts."""
        return {**super().limits(), "pulls": (0, MOST)}


@dataclass(frozen=True, kw_only=True)
class MaillardSampling(CompiledPolicy):
    """p_t(a) ∝ exp(−N_a Δ̂_a² / (2σ²)) for independent arms, given as one-hot rows.

    Arm i is the row with a single 1 at position i, so `dim` is the number of arms there are; a round may
    offer any of them. While an offered arm has no reward yet, the unrewarded ones share the mass equally.

    `sigma` is its parameter, and the `label` of every `Policy`.

    >>> from linmed import Agent, MaillardSampling
    >>> agent, arms = Agent(MaillardSampling(sigma=0.5), dim=2), [[1.0, 0.0], [0.0, 1.0]]
    >>> agent.observe(arms * 2, [0.9, 0.4] * 2)
    >>> agent.probabilities(arms).round(3)
    array([0.731, 0.269])
    """

    sigma: float = parameter(1.0, validation.positive)
    """σ: the noise is taken to be σ-sub-Gaussian."""

    properties: ClassVar[Properties] = Properties(
        "Maillard 2013; Bian & Jun 2022",
        minimax="√(K n log K)",
        instance="K log(n) / Δ",
        all_arms="once each has a reward",
    )
    compiled_rounds: ClassVar[bool] = True

    @property
    def belief(self) -> Callable[..., Any]:
        """Pulls and totals of every arm."""
        made: Callable[..., Any] = core.Pulls
        return made

    def start(self, replicas: int, dim: int) -> PullState:
        """Begin without pulls."""
        return PullState(
            theta=np.zeros((replicas, dim)),
            count=np.zeros(replicas, dtype=np.int64),
            pulls=np.zeros((replicas, dim)),
            totals=np.zeros((replicas, dim)),
        )

    def like(self, arms: Floats) -> Floats:
        """Make one-hot rows, as many as there are dimensions for."""
        return np.eye(len(arms), arms.shape[1])[: arms.shape[1]]

    @property
    def rule(self) -> Any:
        """The weights of the arms."""
        return core.MaillardRule(self.sigma)

    def live(self, state: PullState) -> None:
        """Make none: an agent's arms are looked at before each decision and reward, too."""
        return None

    def learn(self, state: PullState, features: Floats, rewards: Floats, replicas: Ints) -> None:
        """Count the pull and its reward."""
        check_one_hot("features", features)
        super().learn(state, features, rewards, replicas)

    def _rounds(self, state: PullState, arms: Floats, *others: Any) -> None:
        check_one_hot("arms", arms[..., : state.dim])
        super()._rounds(state, arms, *others)


def check_one_hot(name: str, rows: Floats) -> None:
    """Raise unless these are one-hot rows (..., d)."""
    if not (((rows == 0) | (rows == 1)).all() and (rows.sum(axis=-1) == 1).all()):
        raise ValueError(
            f"{name} must be one-hot rows (a single 1, the rest 0); MaillardSampling knows no features"
        )
