"""Measured regret, the paper's bounds and the fitted growth on the same rounds."""

import math
from dataclasses import dataclass

import numpy as np

from linmed.checks import Floats, Ints
from linmed.experiments.experiment import THEORY, Findings
from linmed.experiments.statistics import Estimate, slope
from linmed.policies import LinMED
from linmed.streams import stream
from linmed.theory import Problem


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """Curves over `rounds`; the fit covers `late` ones."""

    rounds: Ints
    measured: Floats
    error: Floats
    lemma: Floats
    instance: Floats
    trivial: Floats
    exponent: Estimate
    late: Ints
    fitted: Floats

    @property
    def looseness(self) -> float:
        """How many times the measured regret the best of the bounds is at the end."""
        best = min(self.lemma[-1], self.instance[-1], self.trivial[-1])
        return float(best / self.measured[-1]) if self.measured[-1] > 0 else math.inf

    @property
    def text(self) -> str:
        """The end of the curves in words."""
        return (
            f"After {self.rounds[-1]:,} rounds LinMED-90 with δ = 1/(t+1) has regret "
            f"{self.measured[-1]:,.1f}. The regret lemma, minimised over L and never above B·n, allows "
            f"{self.lemma[-1]:,.0f}; the instance-dependent theorem {self.instance[-1]:,.0f}; and no policy "
            f"can do worse than {self.trivial[-1]:,.0f}. The best of the three is "
            f"{self.looseness:,.0f} times the measured regret, which over the last decade grows like t to "
            f"the power {self.exponent}."
        )


def overlay(found: Findings) -> Overlay:
    """For LinMED with δ_t = 1/(t+1), as the theorems have it."""
    setting = found.setting(*THEORY)
    (policy,) = setting.policies
    assert isinstance(policy, LinMED)
    results = found.results[THEORY]
    block = next(setting.environment.blocks(stream(found.seed, "environment", 0)))
    gaps = block.means.max() - block.means
    K, d = block.arms.shape
    assert 2 * d >= K  # then ApproxDesign is uniform, whatever the rescaling, and its leverage at most K
    sigma_star = setting.environment.sigma  # type: ignore[attr-defined]
    problem = Problem(
        d, policy.sigma, sigma_star, policy.norm_bound,
        max_gap=float(gaps.max()), gap=float(gaps[gaps > 0].min()), leverage=float(K),
        alpha_emp=policy.alpha_emp, alpha_opt=policy.design_share,
    )  # fmt: skip
    rounds = results.checkpoints
    measured, error = results.mean(policy.name), np.nan_to_num(results.standard_error(policy.name))
    late = rounds >= found.horizon / 10
    p = slope(rounds, results.regret(policy.name), found.horizon / 10)
    with np.errstate(divide="ignore", invalid="ignore"):  # no regret at all: no fit, NaN
        anchor = np.mean(np.log(measured[late]) - p.value * np.log(rounds[late]))
        fitted = np.exp(anchor + p.value * np.log(rounds[late]))
    return Overlay(
        rounds=rounds,
        measured=measured,
        error=error,
        lemma=problem.regret_bound(rounds),
        instance=problem.instance_bound(rounds),
        trivial=problem.B * rounds.astype(np.float64),
        exponent=p,
        late=rounds[late],
        fitted=fitted,
    )
