"""LinMED, the linear version of minimum empirical divergence (the paper's Algorithm 1)."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import MOST, Properties, State
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import RidgePolicy
from linmed.policies.rule import Mixed
from linmed.policies.shares import Shares
from linmed.validation import Floats, Ints

ROOM = 4
"""Arms of the last design to remember for each dimension."""


class WarmRidge(NamedTuple):
    """A ridge estimate and the arms of the last design, in the order in which the core takes them."""

    theta: Floats
    count: Ints  # type: ignore[assignment]
    gram: Floats
    gram_low: Floats
    inverse: Floats
    moment: Floats
    moment_low: Floats
    logdet: Floats
    rss: Floats
    leveraged: Floats
    support: Ints  # (R,4d), −1 where there is none
    size: Floats  # (R,) τ: counts of the last design, 0 before the first


class WarmState(WarmRidge, State):
    """A ridge estimate in every replica, and the arms of the last design."""

    __slots__ = ()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, not copied."""
        return self._asdict()

    def limits(self) -> dict[str, tuple[float, float]]:
        """As of every state; `support` has −1 where there is no arm."""
        return {**super().limits(), "support": (-1, MOST)}


@dataclass(frozen=True)
class MedPolicy(Mixed, RidgePolicy, CompiledPolicy):
    """p_t(a) ∝ q_t(a) f_t(a) with f_t(a) = exp(−Δ̂² / (β ‖â − a‖²_{V⁻¹})); subclasses say what q_t is."""

    @property
    @abstractmethod
    def rule(self) -> Any:
        """q_t."""


@dataclass(frozen=True)
class LinMED(Shares, MedPolicy):
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
        reference="Balagopalan & Jun 2025",
        minimax="d √n",
        instance="d² log²(n) / Δ",
        computable="closed form",
        all_arms="yes",
        randomised=True,
        paper_computable="yes",
        paper_all_arms="yes",
    )

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
        return (core.WarmRule if self.design == "warm" else core.MedRule)(*self._shares)

    @property
    def belief(self) -> Any:
        """A ridge estimate, with the arms of the last design where the next one starts from them."""
        return core.WarmRidge if self.design == "warm" else super().belief

    @property
    def remembers(self) -> bool:
        """The arms of the last design."""
        return self.design == "warm"

    def start(self, replicas: int, dim: int) -> Any:
        """V = λI in every replica, and no design yet."""
        state = super().start(replicas, dim)
        if self.design != "warm":
            return state
        support = np.full((replicas, ROOM * dim), -1, dtype=np.int64)
        return WarmState._make([*state, support, np.zeros(replicas)])

    def log_probabilities(self, state: Any, arms: Floats) -> Floats:
        """log p_t(a); asking changes nothing, and sets asked for together do not learn from each other."""
        if self.design != "warm":
            return super().log_probabilities(state, arms)
        if len(state.count) == 1 and len(arms) > 1:
            return np.concatenate([self.log_probabilities(state, one[None]) for one in arms])
        apart = state._replace(support=state.support.copy(), size=state.size.copy())
        return super().log_probabilities(apart, arms)

    def optimality(self, state: Any) -> Floats:
        """C_opt of the last design in every replica (R,), for design="warm"; NaN before the first.

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


@dataclass(frozen=True)
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

    properties: ClassVar[Properties] = Properties(
        reference="Balagopalan & Jun 2025, sec. 3",
        minimax="unknown",
        instance="unknown",
        computable="closed form",
        all_arms="yes",
        randomised=True,
    )

    @property
    def rule(self) -> Any:
        """q_t uniform."""
        return core.MedRule(0.0, 0.0, 0, False, False)
