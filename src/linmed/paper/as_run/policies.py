"""The policies of the authors' public code where it differs from the text.

None of them plays the first round by its own rule: OFUL, LinTS and LinIMED draw an arm evenly, LinMED leaves
α_emp to the even share, SpannerIGW and EXP2 draw from their design. `OpeningRule` puts such a rule before
the other one.
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linmed.core import core
from linmed.policies import OFUL, LinIMED, LinMED, LinTS, RidgePolicy, SpannerIGW
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.ridge import RidgeState
from linmed.validation import Floats


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
        """s in every replica (R,)."""
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
        """γ in every replica (R,)."""
        out = np.empty(len(state.count))
        core.exploration(self.bind(state), self._then, 0, out)
        return out
