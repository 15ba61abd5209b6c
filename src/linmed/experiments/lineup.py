"""The policies of the paper's experiments by the names in its legends, as the text has them or as run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from linmed.checks import Floats
from linmed.policies import EXP2, OFUL, LinIMED, LinMED, LinMEDNoDesign, LinTS, Policy, SpannerIGW
from linmed.policies.base import Properties, RidgeState
from linmed.policies.rule import RulePolicy

Variant = Literal["text", "as-run"]
DELTA = 0.01
"""δ of every policy: the text gives none for the experiments, the authors' public code has this one."""


@dataclass(frozen=True)
class ArmZero(RulePolicy):
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

    def probabilities(self, state: RidgeState, arms: Floats) -> Floats:
        """1/K before any reward, then 1 on arm 0.  arms → (R,K)."""
        p = np.zeros((state.theta.shape[0], arms.shape[1]))
        p[:, 0] = 1.0
        p[state.count == 0] = 1.0 / arms.shape[1]
        return p


def _linmed(share: int) -> Callable[..., Policy]:
    """LinMED-99 and the like: α_emp = share %, α_opt half of the rest. As run, without the B_t half-step."""

    def make(sigma: float, horizon: int, variant: Variant) -> Policy:
        return LinMED(sigma=sigma, delta=DELTA, alpha_emp=share / 100, alpha_opt=(100 - share) / 200,
                      explore=variant == "text", label=f"LinMED-{share}")  # fmt: skip

    return make


MAKE: dict[str, Callable[..., Policy]] = {
    "LinMED-99": _linmed(99),
    "LinMED-90": _linmed(90),
    "LinMED-50": _linmed(50),
    "LinMEDNOPT": lambda sigma, horizon, variant: LinMEDNoDesign(
        sigma=sigma, delta=DELTA, label="LinMEDNOPT"
    ),
    "OFUL": lambda sigma, horizon, variant: OFUL(sigma=sigma, delta=DELTA, label="OFUL"),
    "LinTS-Freq": lambda sigma, horizon, variant: LinTS(
        sigma=sigma, delta=DELTA, scale="frequentist" if variant == "text" else "squared-radius",
        label="LinTS-Freq",
    ),
    "LinTS-Bayes": lambda sigma, horizon, variant: LinTS(
        sigma=sigma, delta=DELTA, scale="bayes" if variant == "text" else 1.0, label="LinTS-Bayes"
    ),
    "LinIMED-1": lambda sigma, horizon, variant: LinIMED(sigma=sigma, delta=DELTA, label="LinIMED-1"),
    "LinIMED-3": lambda sigma, horizon, variant: (
        LinIMED(sigma=sigma, delta=DELTA, version=3, C=30.0, label="LinIMED-3") if variant == "text"
        else ArmZero(sigma=sigma, delta=DELTA, label="LinIMED-3")
    ),
    "SpannerIGW": lambda sigma, horizon, variant: SpannerIGW(
        sigma=sigma, delta=DELTA, horizon=horizon, label="SpannerIGW"
    ),
    "SpannerIGW-AT": lambda sigma, horizon, variant: SpannerIGW(
        sigma=sigma, delta=DELTA, label="SpannerIGW-AT"
    ),
    "EXP2": lambda sigma, horizon, variant: EXP2(
        horizon=horizon if variant == "text" else None, label="EXP2"
    ),
}  # fmt: skip
"""Name in the legend → (σ, horizon, variant) → policy."""

LINMED = ("LinMED-99", "LinMED-90", "LinMED-50")


def policies(names: Sequence[str], sigma: float, horizon: int, variant: Variant) -> list[Policy]:
    """The policies of these names, given σ."""
    return [MAKE[name](sigma=sigma, horizon=horizon, variant=variant) for name in names]
