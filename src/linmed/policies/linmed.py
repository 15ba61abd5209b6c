"""LinMED, the linear version of minimum empirical divergence (the paper's Algorithm 1)."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from linmed import checks
from linmed.checks import Floats, Ints
from linmed.kernels.bound import deciding
from linmed.kernels.med import MedRule
from linmed.kernels.ridge import Ridge
from linmed.kernels.rounds import rounds
from linmed.policies.base import Choice, Properties, RidgePolicy, RidgeState, decisions, entries

_NO_REWARDS = _NO_LOGARITHMS = np.empty((0, 0, 0))


@dataclass(frozen=True)
class MedPolicy(RidgePolicy):
    """p_t(a) ∝ q_t(a) f_t(a) with f_t(a) = exp(−Δ̂² / (β ‖â − a‖²_{V⁻¹})); subclasses say what q_t is."""

    compiled_rounds: ClassVar[bool] = True

    @property
    @abstractmethod
    def rule(self) -> MedRule:
        """q_t."""

    def log_probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """log p_t(a), finite for every arm whose q_t is positive.  arms (R,K,d) → (R,K)."""
        log_p = np.empty((1, decisions(state, arms), arms.shape[1]))
        arm = np.empty(log_p.shape[:2], dtype=np.int64)
        self._rounds(state, arms[None], _NO_REWARDS, np.zeros((*arm.shape, 1)), arm, log_p)
        result: Floats = log_p[0]
        return result

    def decide(self, state: RidgeState, arms: Floats, noise: Floats) -> Choice:
        """Everything in one call of a kernel."""
        arm, log_p = np.empty((1, len(noise)), dtype=np.int64), np.empty((1, len(noise), arms.shape[1]))
        self._rounds(state, arms[None], _NO_REWARDS, noise[None], arm, log_p)
        played, law = arm[0], log_p[0]
        return Choice(played, entries(law, played), law, self.features(state, arms, played))

    def decider(self, state: RidgeState) -> Callable[..., int] | None:
        """That kernel itself, unless a subclass decides in another way or the state may change its arrays."""
        own = type(self)
        if (own.decide, own._rounds) != (MedPolicy.decide, MedPolicy._rounds) or not isinstance(state, tuple):
            return None
        kernel, confidence, rule = self._parts
        return deciding(kernel, tuple(state), confidence, rule)

    def choose(self, state: RidgeState, arms: Floats, noise: Floats) -> Ints:
        """Draw from p_t without taking its logarithms."""
        arm = np.empty((1, len(noise)), dtype=np.int64)
        self._rounds(state, arms[None], _NO_REWARDS, noise[None], arm, _NO_LOGARITHMS)
        return arm.reshape(-1)

    def play(self, state: RidgeState, arms: Floats, rewards: Floats, noise: Floats, played: Ints) -> None:
        """All rounds in one call of a kernel, without the interpreter and its lock."""
        self._rounds(state, arms, rewards, noise, played, _NO_LOGARITHMS)

    def _rounds(
        self, state: RidgeState, arms: Floats, rewards: Floats, noise: Floats, played: Ints, log_p: Floats
    ) -> None:
        kernel, confidence, rule = self._parts
        kernel(tuple(state), confidence, rule, arms, rewards, noise, played, log_p)

    @cached_property
    def _parts(self) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """The kernel for this belief, confidence set and rule, and the last two as it takes them."""
        sure, rule = self.confidence_set, self.rule
        kinds: tuple[Any, ...] = Ridge, type(sure), type(rule)
        return rounds(*kinds), tuple(sure), tuple(rule)


@dataclass(frozen=True)
class LinMED(MedPolicy):
    """LinMED: q_t = α_opt·(design) + α_emp·1{a = â} + (1 − α_opt − α_emp)/K, then p_t ∝ q_t f_t.

    While some arm has leverage above 1 (the event B_t), half of the mass goes to the arm of largest
    leverage. LinMED-99, -90 and -50 of the paper are alpha_emp = 0.99, 0.90, 0.50.

    >>> LinMED().name, LinMED(alpha_emp=0.5, version=1).name
    ('LinMED-90', 'LinMED-50 (version=1)')
    """

    alpha_emp: float = 0.9
    """α_emp: share of the empirically best arm."""
    alpha_opt: float | None = None
    """α_opt: share of the design; None means (1 − alpha_emp)/2, as in the paper."""
    version: Literal[0, 1] = 0
    """0: the design is made for the arms rescaled by √f; 1: for the arms with f ≥ 1/e."""
    design: Literal["approx", "optimal"] = "approx"
    """The paper's ApproxDesign, or the G-optimal design (certificate at most 1 + 1e-6)."""
    explore: bool = True
    """The half-step on the arm of largest leverage."""

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
        self._set("alpha_emp", checks.between("alpha_emp", self.alpha_emp, 0.0, 1.0))
        if self.alpha_opt is not None:
            self._set("alpha_opt", checks.between("alpha_opt", self.alpha_opt, 0.0, 1.0))
            if self.alpha_emp + self.alpha_opt > 1.0 + 1e-12:
                raise checks.BadValue(
                    "alpha_opt",
                    f"alpha_emp + alpha_opt must be at most 1, got {self.alpha_emp!r} + {self.alpha_opt!r}",
                )
        self._set("version", checks.option("version", self.version, (0, 1)))
        self._set("design", checks.option("design", self.design, ("approx", "optimal")))
        self._set("explore", checks.flag("explore", self.explore))

    @property
    def design_share(self) -> float:
        """α_opt."""
        return (1.0 - self.alpha_emp) / 2.0 if self.alpha_opt is None else self.alpha_opt

    @property
    def rule(self) -> MedRule:
        """q_t as above."""
        return MedRule(
            self.alpha_emp, self.design_share, self.version, self.design == "optimal", self.explore
        )

    def derived_name(self) -> str:
        """LinMED-90 and the like where alpha_opt = (1 − alpha_emp)/2."""
        if abs(self.design_share - (1.0 - self.alpha_emp) / 2.0) < 1e-12:
            return f"LinMED-{100 * self.alpha_emp:g}" + self.describe("alpha_emp", "alpha_opt")
        return "LinMED" + self.describe()


@dataclass(frozen=True)
class LinMEDNoDesign(MedPolicy):
    """LinMEDNOPT of the paper's section 3: p_t ∝ f_t, no design, no exploration step.

    Its regret grows with the number of arms; it is here for that comparison.
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
    def rule(self) -> MedRule:
        """q_t uniform."""
        return MedRule(0.0, 0.0, 0, False, False)
