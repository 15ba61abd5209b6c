"""What a `Forgetful` policy keeps of the rewards: estimates with several memories, by their kind."""

import dataclasses
import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from linmed import validation
from linmed.core import core
from linmed.policies.base import MOST, State, decisions, merged
from linmed.policies.glm import CERTIFIED, INTERCEPT, Glm, GLMPolicy, GlmState, one_glm
from linmed.policies.half_lives import HalfLife, memory
from linmed.policies.ridge import (
    LEARNED,
    RIDGE,
    UNBOUNDED,
    Ridge,
    RidgePolicy,
    RidgeState,
    one_expert,
    start_ridge,
)
from linmed.validation import Floats, Ints

GLM = len(Glm._fields) - 1
"""Arrays of a generalised linear model, without `leader`, of which the last is `told`."""
UNPROVED = 0.1
"""The share of an alarm's level for the case that θ* is outside the sets by which the monitor learns."""

KEPT = 16
"""Adoptions and alarms that are remembered."""
CLIP = 4.0
"""So many times the size of the noise is far from what was predicted."""
FEW = 5
"""So many rewards far from what was predicted are no reason for a doubt."""
CLIPPED = 3
"""Of `spread`: how many rewards were as far."""


_IN_COMMON = (
    "weight",  # (R,N)
    "score",  # (R,N+1) log-likelihood of the last reward
    "rules",  # (R,3) what all have in common: s; log 1/α; S or −1, of clicks λS² + λ₀·5² − 2 log 9/10
    "leader",  # (R,) the expert that decides, the first among equals
    "rewards",  # (R,) absorbed so far
    "clock",  # (R,) time of the newest decision that was rewarded, 0 where nobody told
    "trust",  # (R,) of the bettor in the monitor
    "loss",  # (R,) M since the test began
    "evidence",  # (R,) log E
    "happened",  # (R,2) adoptions and alarms so far
    "adoptions",  # (R,KEPT,4) of the last ones: number of the reward, time, who took over, from whom
    "alarms",  # (R,KEPT,3) number of the reward, time, log E
)
"""Arrays behind those of the estimates, in the order in which the core takes them (core/forgetting.hpp).

N experts and a monitor in every replica: row r·(N+1) + e. Experts are in order of memory, the longest first,
those of one memory in order of λ. Their `count` is n, what is left of the number of rewards.
"""
_named: Any = namedtuple  # of fields that are computed
Forgetting: Any = _named("Forgetting", (*Ridge._fields, "told", *_IN_COMMON, "spread"))
"""`told` (R·(N+1),6): λ; σ or 0; the rewards' scale; γ and log γ; the half-life on a clock. `spread` (R,5):
how large the test takes the noise to be, and how often it was larger."""
GlmForgetting: Any = _named("GlmForgetting", (*Glm._fields[:GLM], "memory", *_IN_COMMON))
"""`memory` (R·(N+1),4): λ; the intercept's own, or 0; γ; the half-life on a clock, or 0."""


class _Remembered(State):
    """Estimates with different memories in every replica, and last a monitor that forgets nothing.

    The class beside it says what each array is; the first ones, of estimates, are (R, N+1, …) here. `theta`
    and `count` are as of any other state: the estimate that decides, and the number of rewards.
    """

    __slots__ = ()
    _estimates: ClassVar[int]
    """How many arrays are of estimates."""

    @property
    def theta(self) -> Floats:  # type: ignore[override]
        """θ̂ of the leaders (R,d)."""
        arrays: Any = self
        theta: Floats = arrays[0][np.arange(len(arrays.leader)), arrays.leader]
        return theta

    @property
    def count(self) -> Ints:  # type: ignore[override]
        """Rewards absorbed (R,)."""
        arrays: Any = self
        rewards: Ints = arrays.rewards
        return rewards

    @property
    def priors(self) -> Floats:
        """λ of every estimate, which the last of their arrays begins with."""
        arrays: Any = self
        priors: Floats = arrays[self._estimates - 1][0, :, 0]
        return priors

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays, without a copy."""
        arrays: Any = self
        return dict(zip(arrays._fields, arrays, strict=True))

    def limits(self) -> dict[str, tuple[float, float]]:
        """Give the limits of every state; `leader` is a weighed estimate, and counts are not negative."""
        arrays: Any = self
        ranges = {"leader": (0, arrays.weight.shape[1] - 1), "weight": (0, 1 + 1e-9), "count": (0, MOST)}
        return {**super().limits(), **ranges}

    def parts(self) -> tuple[NDArray[Any], ...]:
        """Estimates one behind the other, as the core has them."""
        arrays: Any = self
        n = self._estimates
        return *map(merged, arrays[:n]), *arrays[n:]


class ForgetfulState(_Remembered, Forgetting):  # type: ignore[misc]
    """Of ridge estimates, and what each was told."""

    __slots__ = ()
    _estimates = RIDGE + 1


class ForgetfulGlmState(_Remembered, GlmForgetting):  # type: ignore[misc]
    """Of generalised linear models, and how each forgets."""

    __slots__ = ()
    _estimates = GLM + 1


def _in_common(replicas: int, experts: int, *rules: float) -> list[NDArray[Any]]:
    """Make the arrays behind those of the estimates: weights, leader and test, before any reward."""
    common = np.empty((replicas, len(rules)))
    common[:] = rules
    none, zero = np.zeros(replicas, dtype=np.int64), np.zeros(replicas)
    return [
        np.full((replicas, experts), 1.0 / experts), np.zeros((replicas, experts + 1)), common,
        none, none.copy(), zero, np.full(replicas, 0.5), zero.copy(), zero.copy(),
        np.zeros((replicas, 2), dtype=np.int64), np.zeros((replicas, KEPT, 4)), np.zeros((replicas, KEPT, 3)),
    ]  # fmt: skip


def _rows(state: Any, experts: Ints, arrays: int) -> list[NDArray[Any]]:
    """Take the first arrays of one estimate for each of `experts`, by replica or all from one replica."""
    replicas = np.arange(len(experts)) if len(state.leader) > 1 else np.zeros(len(experts), dtype=np.int64)
    return [array[replicas, experts] for array in state[:arrays]]


class RidgeMemories:
    """Ridge estimates."""

    belief = core.Forgetting

    def __init__(self, base: RidgePolicy) -> None:
        told = base.sigma, base.norm_bound, base.ridge
        paper = base.confidence == "paper" and not any(isinstance(one, str) for one in told)
        self.asked: RidgePolicy = dataclasses.replace(base, confidence="mixture") if paper else base

    def start(
        self, replicas: int, dim: int, half_lives: tuple[HalfLife, ...], share: float, level: float
    ) -> ForgetfulState:
        """V = λI in every estimate, all of one weight."""
        base = self.asked
        lams = LEARNED if base.ridge == "learned" else (base.lam,)
        told = [(lam, *span) for span in map(memory, half_lives) for lam in lams]
        experts, told = len(told), [*told, (lams[0], 1.0, 0.0)]  # and the monitor
        models = [start_ridge(replicas, dim, row[0]) for row in told]
        stacked = [np.ascontiguousarray(np.stack(arrays, axis=1)) for arrays in zip(*models, strict=True)]
        stacked[1] = stacked[1].astype(np.float64)  # n, of which a part is forgotten
        each, sigma = np.empty((replicas, experts + 1, 6)), base.numbers[0]
        each[:] = [
            (lam, sigma, base.reward_scale, factor, math.log(factor), seconds)
            for lam, factor, seconds in told
        ]
        norm = base.numbers[1] if self.bounded else UNBOUNDED
        common = _in_common(replicas, experts, share, level, norm)
        made: ForgetfulState = ForgetfulState._make([*stacked, each, *common, np.zeros((replicas, 5))])
        return made

    @property
    def bounded(self) -> bool:
        """Whether the test takes ‖θ*‖ ≤ S for granted."""
        base = self.asked
        told = not isinstance(base.norm_bound, str) and not isinstance(base.sigma, str)
        return told and base.ridge != "learned"

    def of_one(self, state: Any, experts: Ints) -> Any:
        """A state of the policy that is asked, which knows one estimate for each of `experts`."""
        *rows, told = _rows(state, experts, RIDGE + 1)
        if self.asked.ridge != "learned":
            return RidgeState(*rows)
        return one_expert(rows, told[:, :3])

    def assumes(self, thetas: str) -> str:
        """Say when the level of the alarms holds, for one θ or those of items."""
        sigma, norm = self.asked.numbers
        noise = (
            f"{sigma:g}-sub-Gaussian, as any within ±{sigma:g} of its mean,"
            if sigma
            else "Gaussian of one size"
        )
        size = f" of size at most {norm:g}" if self.bounded else ""
        return f"rewards are linear in the features with {thetas}{size}, their noise is {noise}"

    def doubt(self, state: Any, replica: int) -> str | None:
        """Say if more rewards are far from their predictions than the assumed noise explains.

        A Gaussian reward is with probability 6e-5, a σ-sub-Gaussian one with 7e-4 at most.
        """
        count, far, sigma = (
            int(state.rewards[replica]),
            int(state.spread[replica, CLIPPED]),
            self.asked.numbers[0],
        )
        if far <= FEW + count * (2e-3 if sigma else 2e-4):
            return None
        if sigma:
            return (
                f"{far:,} of {count:,} rewards lie farther from every prediction than {CLIP:g} times sigma = "
                f'{sigma:g}: it is too small, or norm_bound is; sigma="unknown" learns it from the rewards'
            )
        return (
            f"{far:,} of {count:,} rewards lie farther than {CLIP:g} standard deviations from what was "
            "predicted and were clipped there: with tails heavier than a Gaussian's the level of the alarms "
            "is measured, not proved"
        )

    def noise_level(self, state: Any) -> Floats:
        """σ by a state of the policy that is asked (R,)."""
        return self.asked.noise_level(state)


class GlmMemories:
    """Generalised linear models; their own confidence set is asked, with what is left of H and n."""

    belief = core.GlmForgetting

    bounded = True

    def __init__(self, base: GLMPolicy) -> None:
        self.asked = base

    @property
    def monitor(self) -> GLMPolicy:
        """Who watches: with the curvature that has a proof for all θ* of norm S."""
        return dataclasses.replace(self.asked, ridge=None, norm_bound=self.norm, confidence="certified")

    @property
    def norm(self) -> float:
        """S as it was told, or else as large as the intercept is thought to be."""
        told = self.asked.norm_bound
        return INTERCEPT if isinstance(told, str) else told

    def start(
        self, replicas: int, dim: int, half_lives: tuple[HalfLife, ...], share: float, level: float
    ) -> ForgetfulGlmState:
        """H of the priors alone in every estimate, all of one weight."""
        base = self.asked
        own, watching = base.start(replicas, dim), self.monitor.start(replicas, dim)
        memories = len(half_lives)
        stacked = [
            np.ascontiguousarray(np.concatenate([one] * memories + [other], axis=1))
            for one, other in zip(own[:GLM], watching[:GLM], strict=True)
        ]
        count = Glm._fields.index("count")
        stacked[count] = stacked[count].astype(np.float64)  # n, of which a part is forgotten
        prior = 1.0 + float(base.intercept)  # λS² with λ = 1/S²
        stacked[GLM - 1][:, -1, CERTIFIED] = prior + 2.0 * (level - math.log(UNPROVED))
        level_prior = INTERCEPT**-2 if base.intercept else 0.0
        told = [(lam, level_prior, *span) for span in map(memory, half_lives) for lam in base.priors]
        experts = len(told)
        how = np.empty((replicas, experts + 1, 4))
        how[:] = [*told, (self.monitor.lam, level_prior, 1.0, 0.0)]
        paid = prior - 2.0 * math.log1p(-UNPROVED)
        made: ForgetfulGlmState = ForgetfulGlmState._make(
            [*stacked, how, *_in_common(replicas, experts, share, level, paid)]
        )
        return made

    def of_one(self, state: Any, experts: Ints) -> GlmState:
        """A state of the policy that is asked, which knows one estimate for each of `experts`."""
        return one_glm(_rows(state, experts, GLM))

    def assumes(self, thetas: str) -> str:
        """Say when the level of the alarms holds, for one θ or those of items."""
        inside = self.asked
        what = {
            "logistic": "the log-odds of rewards between 0 and 1",
            "poisson": "the logarithms of the means of counts by Poisson's law",
            "gaussian": f"rewards with {inside.sigma:g}-sub-Gaussian noise",
        }[inside.family]
        base = f" and one intercept of at most ±{INTERCEPT:g}" if inside.intercept else ""
        return f"{what} are linear in the features with {thetas} of size at most {self.norm:.3g}{base},"

    def doubt(self, state: Any, replica: int) -> None:
        """None: clicks and counts cannot be far from what was predicted."""

    def noise_level(self, state: Any) -> Floats:
        """Return 1: H is in units of the rewards' own noise."""
        return np.ones(len(state.leader))


def mixture(state: Any, arms: Floats, law: Callable[[Any, Floats], Floats]) -> Floats:
    """log Σ w p_g of every arm, each p_g by the leaders of a state."""
    every: Floats = np.full((decisions(state, arms), arms.shape[1]), -np.inf)
    for expert in range(state.weight.shape[1]):
        own = law(state._replace(leader=np.full(len(state.leader), expert)), arms)
        np.logaddexp(every, np.log(state.weight[:, expert])[:, None] + own, out=every)
    return every


def draw_from_mixture(
    state: Any, arms: Floats, noise: Floats, choose: Callable[[Any, Floats, Floats], Ints]
) -> Ints:
    """Draw one arm per replica by an estimate that the last uniform picks."""
    below = np.cumsum(state.weight, axis=1)[:, :-1]
    drawn = (noise[:, -1:] * state.weight.sum(axis=1, keepdims=True) >= below).sum(axis=1)
    noise = validation.for_kernels(noise[:, :-1])
    if len(drawn) == len(state.leader):
        return choose(state._replace(leader=drawn), arms, noise)
    arm = np.empty(len(drawn), dtype=np.int64)  # one state decides for many sets
    for expert in np.unique(drawn):
        own = drawn == expert
        arm[own] = choose(state._replace(leader=np.full(1, expert)), arms[own], noise[own])
    return arm
