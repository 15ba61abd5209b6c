"""Inverse gap weighting: probabilities that fall like one over the estimated gap (SquareCB, SpannerIGW)."""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats
from linmed.kernels.compile import by_class, deferred, inlined
from linmed.kernels.design import approx_design_of
from linmed.kernels.optimal import optimal_design
from linmed.kernels.optimism import expect, look_at, means, per_arm
from linmed.kernels.sampling import settle

OPTIMAL_TOL = 1e-6


@by_class
def exploration(rule, belief, s, K, d):
    """γ of replica s for K arms in d dimensions."""


@by_class
def spanner_design(rule, belief, s, arms, p, gap, scratch, q):
    """Writes SpannerIGW's design to q (K,); gap is η times the gaps, scratch (K,) is written."""
    shrunken_design(arms, p, gap, rule.optimal, scratch, q)


class GapScratch(NamedTuple):
    """What these rules write of every arm, (K,) each."""

    mean: Floats
    gap: Floats
    share: Floats
    p: Floats


class SquareRule(NamedTuple):
    """p(a) = 1/(K + γ gap_a), the rest on the best arm; or, normalised, p(a) = 1/(λ' + 2γ gap_a)."""

    vaw: bool
    normalised: bool
    gamma: float  # 0 stands for the formula
    horizon: float  # 0 stands for the current round
    log_rate: float  # log(2/δ); negative stands for δ = 1/(n+1)
    lam: float  # λ
    bias: float  # λS²
    variance: float  # σ²
    unit: float  # σ² + S²

    def exploration(self, belief, s, K, d):
        """γ = √(K n / (Reg_Sq + log(2/δ)))."""
        if self.gamma > 0.0:
            return self.gamma
        if self.horizon > 0.0:
            n = self.horizon
            regret = self.variance * d * math.log1p(n / (d * self.lam))
        else:
            n = belief.count[s] + 1.0
            regret = self.bias + self.unit * belief.logdet[s]
        log_rate = self.log_rate if self.log_rate >= 0.0 else math.log(2.0 * (n + 1.0))
        return math.sqrt(K * n / (regret + log_rate))

    def workspace(self, K, d):
        """Scratch for sets of K arms; every arm has the same share."""
        return GapScratch(per_arm(K), per_arm(K), np.ones(K), per_arm(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, gap, out = scratch.mean, scratch.gap, scratch.p
        K = mean.shape[0]
        gamma = exploration(self, belief, s, K, arms.shape[2])
        predictions(belief, s, arms, p, blocks, n, self.vaw, gap, out, mean)
        best = gaps_to_best(mean, gap)
        if self.normalised:
            for i in range(K):
                gap[i] *= 2.0 * gamma
            inverse_gaps(scratch.share, gap, out)
        else:
            rest = 1.0
            for i in range(K):
                if i != best:
                    out[i] = 1.0 / (K + gamma * gap[i])
                    rest -= out[i]
            out[best] = rest
        return settle(out, 0.0, noise[t, r, 0], t, r, log_p)


class SpannerRule(NamedTuple):
    """p(a) = q(a)/(λ + η gap_a), q half on the best arm, half on a design of the arms a/√(1 + η gap_a)."""

    C_opt: float
    gamma: float  # 0 stands for the formula
    horizon: float  # 0 stands for the current round
    log_rate: float  # log(2/δ); negative stands for δ = 1/(n+1)
    regression_regret: float  # 0 stands for d log n
    optimal: bool
    floor: float

    def exploration(self, belief, s, K, d):
        """γ for n rounds, or for the current one."""
        if self.gamma > 0.0:
            return self.gamma
        return spanner_rate(self, self.horizon if self.horizon > 0.0 else belief.count[s] + 1.0, d)

    def workspace(self, K, d):
        """Scratch for sets of K arms."""
        return GapScratch(per_arm(K), np.empty(K), np.empty(K), np.empty(K))

    def decide(self, belief, s, beta, arms, p, blocks, n, noise, t, r, scratch, log_p):
        """See `rounds.decide`."""
        mean, gap, q, out = scratch.mean, scratch.gap, scratch.share, scratch.p
        K, d = mean.shape[0], arms.shape[2]
        eta = exploration(self, belief, s, K, d) / (self.C_opt * d)
        means(arms, p, blocks, n, belief.theta, s, mean)
        best = gaps_to_best(mean, gap)
        for i in range(K):
            gap[i] *= eta
        spanner_design(self, belief, s, arms, p, gap, out, q)
        for i in range(K):
            q[i] *= 0.5
        q[best] += 0.5
        inverse_gaps(q, gap, out)
        return settle(out, self.floor, noise[t, r, 0], t, r, log_p)


@by_class
def spanner_rate(rule, n, d):
    """γ = √(C_opt d n / (Reg_Sq + 32 log(2/δ)))."""
    log_rate = rule.log_rate if rule.log_rate >= 0.0 else math.log(2.0 * (n + 1.0))
    regret = rule.regression_regret if rule.regression_regret > 0.0 else d * math.log(n)
    return math.sqrt(rule.C_opt * d * n / (regret + 32.0 * log_rate))


@deferred("void(f8[:,:,::1], intp, f8[::1], b1, f8[::1], f8[::1])")
def shrunken_design(arms, p, gap, optimal, log_scale, q):
    """A design q (K,) of the arms a/√(1 + gap_a) of set p; log_scale (K,) is scratch."""
    A = arms[p]
    for i in range(gap.shape[0]):
        log_scale[i] = -0.5 * math.log1p(gap[i])
    if optimal:
        optimal_design(A, log_scale, OPTIMAL_TOL, q)
    else:
        approx_design_of(A, log_scale, q)


@inlined
def inverse_gaps(q, gap, out):
    """out_a = q_a / (λ + gap_a) with the λ that makes the sum 1.  All (K,)."""
    lam = normaliser(q, gap)
    for i in range(q.shape[0]):
        out[i] = q[i] / (lam + gap[i])


@inlined
def normaliser(q, gap):
    """The λ > 0 with Σ q_i / (λ + gap_i) = 1, where some q_i > 0 has gap 0.  q, gap (K,), non-negative.

    Newton's method on 1/h, h(λ) = Σ q_i / (λ + gap_i): 1/h is increasing and concave, so the iterates
    climb to the root from the start at Σ_{gap 0} q_i, where h ≥ 1.
    """
    K = q.shape[0]
    lam = 0.0
    for i in range(K):
        if gap[i] == 0.0:
            lam += q[i]
    for _ in range(100):
        h = 0.0
        slope = 0.0
        for i in range(K):
            term = q[i] / (lam + gap[i])
            h += term
            slope += term / (lam + gap[i])
        step = h * (h - 1.0) / slope
        if not step > 1e-15 * lam:
            break
        lam += step
    return lam


@inlined
def gaps_to_best(mean, gap):
    """gap_a = max_b mean_b − mean_a; returns the best arm, the lowest index among equals.  mean, gap (K,)."""
    best = 0
    for i in range(1, mean.shape[0]):
        if mean[i] > mean[best]:
            best = i
    for i in range(mean.shape[0]):
        gap[i] = mean[best] - mean[i]
    return best


@inlined
def predictions(belief, s, arms, p, blocks, n, vaw, leverage, scratch, mean):
    """⟨θ̂, a⟩, divided by 1 + ‖a‖² in V⁻¹ for the Vovk–Azoury–Warmuth forecaster.  All (K,)."""
    if not vaw:
        expect(belief, s, arms, p, blocks, n, mean)
        return
    look_at(belief, s, arms, p, blocks, n, mean, leverage, scratch)
    for i in range(mean.shape[0]):
        mean[i] /= 1.0 + leverage[i]
