"""The policies of the paper's experiments by the names in its legends, as the text has them or as run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from linmed.kernels.blind import ArmZeroRule
from linmed.policies import EXP2, LinMED, LinTS, Policy, RidgePolicy
from linmed.policies.base import Properties
from linmed.policies.compiled import CompiledPolicy
from linmed.policies.legends import LEGENDS, policy_makers

Variant = Literal["text", "as-run"]
DELTA = 0.01
"""δ of every policy: the text gives none for the experiments, the authors' public code has this one."""


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
    def rule(self) -> ArmZeroRule:
        """1/K before any reward, then 1 on arm 0."""
        return ArmZeroRule()


LINMED = ("LinMED-99", "LinMED-90", "LinMED-50")
TUNED = ("SpannerIGW", "EXP2")
"""Told the horizon: how their regret grows with it shows only between horizons."""
AS_RUN: dict[str, tuple[type[Policy], dict[str, Any]]] = {
    **{name: (LinMED, {**LEGENDS[name][1], "explore": False}) for name in LINMED},
    "LinTS-Freq": (LinTS, {"scale": "squared-radius"}),
    "LinTS-Bayes": (LinTS, {"scale": 1.0}),
    "LinIMED-3": (ArmZero, {}),
    "EXP2": (EXP2, {"horizon": None}),
}
"""Where the public code differs: a class and its parameters."""


def policies(names: Sequence[str], sigma: float, horizon: int, variant: Variant) -> list[Policy]:
    """The policies of these names in the legends, given σ."""
    known = {**policy_makers(), **(AS_RUN if variant == "as-run" else {})}
    made = []
    for name in names:
        cls, parameters = known[name]
        told = {"horizon": horizon} if name in TUNED else {}
        shared = {"sigma": sigma, "delta": DELTA} if issubclass(cls, RidgePolicy) else {}
        made.append(cls(label=name, **{**shared, **told, **parameters}))
    return made
