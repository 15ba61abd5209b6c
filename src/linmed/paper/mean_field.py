"""LinMED's regret without chance: every arm gets its probability's share of every round, θ̂ is θ*.

Rounds cost nothing here, so this shows how regret goes on where no simulation gets to.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.policies import LinMED
from linmed.validation import Floats

STEP = 0.01
"""Rounds taken at once, relative to those before."""


class MeanField(NamedTuple):
    """Regret over rounds, with what each arm has in it."""

    rounds: Floats
    by_arm: Floats  # (T,K)
    regret: Floats

    @property
    def exponents(self) -> Floats:
        """p of regret ∝ tᵖ around each round, over half a decade to either side where there is as much."""
        x, y = np.log(self.rounds), np.log(self.regret)
        reach = 0.5 * math.log(10.0)
        low, high = np.maximum(x - reach, x[0]), np.minimum(x + reach, x[-1])
        exponents: Floats = (np.interp(high, x, y) - np.interp(low, x, y)) / (high - low)
        return exponents

    def share(self, arms: Floats, start: float, end: float) -> float:
        """Of the regret between two rounds, what these arms (K,), a mask, have in it."""
        parts = self.by_arm[:, arms].sum(axis=1)
        part, whole = (np.diff(np.interp([start, end], self.rounds, y))[0] for y in (parts, self.regret))
        return float(part / whole)

    def exponent(self, start: float, end: float) -> float:
        """p of regret ∝ tᵖ between two rounds."""
        first, last = np.interp(np.log([start, end]), np.log(self.rounds), np.log(self.regret))
        return float((last - first) / math.log(end / start))

    @property
    def turn(self) -> float:
        """The round from which on the exponent only falls."""
        rising = np.flatnonzero(np.diff(self.exponents) > 0.0)
        return float(self.rounds[rising[-1] + 1]) if rising.size else float(self.rounds[0])


def mean_field(policy: LinMED, arms: Floats, means: Floats, last: float) -> MeanField:
    """Up to round `last`, for fixed arms (K,d) of which the design takes all alike (K ≤ 2d), δ = 1/(t+1).

    p(a) ∝ q(a) exp(−Δ_a² / (β ‖a − a*‖²)) in the norm of V⁻¹, and V grows by Σ p(a) a aᵀ in a round.
    """
    K, d = arms.shape
    best = int(means.argmax())
    gap, apart = means[best] - means, arms - arms[best]
    share = np.full(K, (1.0 - policy.alpha_emp) / K)  # the design's and the uniform one, which are the same
    share[best] += policy.alpha_emp
    squares = np.einsum("ai,aj->aij", arms, arms)
    V, t, regret = policy.lam * np.eye(d), 0.0, np.zeros(K)
    sigma, norm = policy.numbers
    start, level = float(np.linalg.slogdet(V)[1]), math.sqrt(policy.lam) * norm
    rounds, losses = [], []
    while t < last:
        step = min(max(1.0, STEP * t), last - t)
        spread = float(np.linalg.slogdet(V)[1]) - start + 2.0 * math.log(t + 1.0)
        beta = (sigma * math.sqrt(max(spread, 0.0)) + level) ** 2
        distance = np.einsum("ai,ij,aj->a", apart, np.linalg.inv(V), apart)
        exponent = np.divide(gap**2, beta * distance, out=np.zeros(K), where=distance > 0.0)
        p = share * np.exp(-exponent)
        p /= p.sum()
        V += step * np.einsum("a,aij->ij", p, squares)
        t += step
        regret = regret + step * p * gap
        rounds.append(t)
        losses.append(regret)
    by_arm = np.array(losses)
    return MeanField(np.array(rounds), by_arm, by_arm.sum(axis=1))
