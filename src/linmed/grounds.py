"""What a policy's confidence set takes for granted, and whether what follows from it is proved."""

from functools import lru_cache

from linmed.kernels import confidence
from linmed.kernels.glm import GlmSet
from linmed.policies import GLMPolicy, RidgePolicy
from linmed.policies.glm import INTERCEPT

Judge = RidgePolicy | GLMPolicy
"""Policies that have a confidence set to judge arms by."""
UNITS = {"logistic": " in log-odds", "poisson": " in logarithms of the rate", "gaussian": ""}
"""Of what is linear in the features."""


@lru_cache(maxsize=64)
def grounds(judge: Judge) -> tuple[str | None, str]:
    """Why what this set says is no proof, or None; and what it assumes."""
    doubt, assumes = _of_glm(judge) if isinstance(judge, GLMPolicy) else _of_ridge(judge)
    sure = type(judge.confidence_set)
    if doubt is None and sure not in (confidence.RidgeSet, GlmSet):
        doubt = f"{sure.__name__} is a confidence set of one's own, whose proof is not known here"
    return doubt, f"{', '.join(assumes[:-1])}, and {assumes[-1]}" if len(assumes) > 1 else assumes[0]


def _of_glm(judge: GLMPolicy) -> tuple[str | None, list[str]]:
    doubt = None
    if not judge.proved:
        doubt = 'the set is the quadratic model of a likelihood (confidence="certified" has a proof)'
    linear = {"logistic": "log-odds of a click", "poisson": "logarithms of rates", "gaussian": "rewards"}
    assumes = [f"{linear[judge.family]} are linear in the features"]
    if judge.family == "gaussian":
        assumes.append(f"their noise is sub-Gaussian with sigma={judge.sigma:g}")
    if not isinstance(judge.norm_bound, str):
        assumes.append(f"the length of theta is at most norm_bound={judge.norm_bound:g}")
    if judge.intercept:
        assumes.append(f"the intercept is at most {INTERCEPT:g} in size")
    return doubt, assumes


def _of_ridge(judge: RidgePolicy) -> tuple[str | None, list[str]]:
    sigma, norm = judge.sigma, judge.norm_bound
    assumes = ["rewards are linear in the features"]
    if not isinstance(sigma, str):
        assumes.append(f"their noise is sub-Gaussian with sigma={sigma:g}")
    elif judge.tails == "gaussian":
        assumes.append("their noise is Gaussian")
    else:
        assumes.append("their noise is strictly sub-Gaussian of one size, as Gaussian, uniform and ±1 are")
    if not isinstance(norm, str) and judge.ridge != "learned":
        assumes.append(f"the length of theta is at most norm_bound={norm:g}")
    doubt = None
    if not judge.proved:
        doubt = "the ridge is learned from the same rewards (empirical Bayes), which no proof covers"
    return doubt, assumes
