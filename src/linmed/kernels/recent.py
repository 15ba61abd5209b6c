"""Beliefs that forget at a rate they were told: every reward fades (D-LinUCB), or only the last ones count.

Both make V⁻¹ anew from V at every reward, O(d³): the faded ridge is filled up in all directions at once, a
window drops one arm and takes another. So no error of an inverse outlives its reward. V itself forgets its
rounding errors as it fades; in a window, where arms are taken off again, it is summed anew from the arms kept
there every time the window has gone by: O(d²) a reward in the mean, and never more than that many roundings.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import deferred
from linmed.kernels.ridge import invert

LEAST = 1e-13  # of its diagonal is added to a V that is singular to working precision


class Faded(NamedTuple):
    """V = λI + Σγ^{t−s} a aᵀ, b = Σγ^{t−s} a y, Ṽ = λI + Σγ^{2(t−s)} a aᵀ after t rewards."""

    theta: Floats  # (R,d) θ̂ = V⁻¹b
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed
    inverse: Floats  # (R,d,d) V⁻¹ṼV⁻¹, the covariance of θ̂ over σ²: what widths are measured in
    gram: Floats  # (R,d,d) V
    gram_squared: Floats  # (R,d,d) Ṽ
    moment: Floats  # (R,d) b
    told: Floats  # (R,2) γ and λ

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r: all fades, the ridge is filled up again, the arm is added."""
        gamma, lam = self.told[r, 0], self.told[r, 1]
        gamma2 = gamma * gamma
        for j in range(u.shape[0]):
            x = features[i, j]
            self.moment[r, j] = gamma * self.moment[r, j] + reward * x
            for k in range(u.shape[0]):
                product = x * features[i, k]
                self.gram[r, j, k] = gamma * self.gram[r, j, k] + product
                self.gram_squared[r, j, k] = gamma2 * self.gram_squared[r, j, k] + product
            self.gram[r, j, j] += (1.0 - gamma) * lam
            self.gram_squared[r, j, j] += (1.0 - gamma2) * lam
        self.count[r] += 1
        solve(self.gram, self.moment, self.inverse, self.theta, r)
        sandwich(self.gram_squared, self.inverse, r)
        return False

    def refresh(self, r):
        """Nothing is left of rounding."""


class Windowed(NamedTuple):
    """V = λI + Σ a aᵀ and b = Σ a y over the last w rewards, in every replica."""

    theta: Floats  # (R,d) θ̂ = V⁻¹b
    count: Ints  # type: ignore[assignment]  # (R,) rewards absorbed, those forgotten among them
    inverse: Floats  # (R,d,d) V⁻¹
    gram: Floats  # (R,d,d) V
    moment: Floats  # (R,d) b
    lam: Floats  # (R,) λ
    vectors: Floats  # (R,w,d) the arms of the last w rewards; the next one goes to count mod w
    rewards: Floats  # (R,w)

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r takes the place of the oldest."""
        w, d = self.vectors.shape[1], u.shape[0]
        place = self.count[r] % w
        self.count[r] += 1
        dropped = self.rewards[r, place] if self.count[r] > w else 0.0
        for j in range(d):
            old = self.vectors[r, place, j] if self.count[r] > w else 0.0
            x = features[i, j]
            self.moment[r, j] += reward * x - dropped * old
            for k in range(d):
                beside = self.vectors[r, place, k] if self.count[r] > w else 0.0
                self.gram[r, j, k] += x * features[i, k] - old * beside
        for k in range(d):
            self.vectors[r, place, k] = features[i, k]
        self.rewards[r, place] = reward
        if place == w - 1:
            sum_anew(self.gram, self.moment, self.lam, self.vectors, self.rewards, r)
        solve(self.gram, self.moment, self.inverse, self.theta, r)
        return False

    def refresh(self, r):
        """Done on the way."""


class FadedSet(NamedTuple):
    """√β = √λ S + σ √(2 log(1/δ) + d log(1 + L²(1 − γ^{2t}) / (λd(1 − γ²)))) after t rewards.

    Russac, Vernade & Cappé (2019), Theorem 1 and Algorithm 1.
    """

    sigma: float
    log_inverse_delta: float  # negative stands for δ = 1/(t+1)
    lam: float
    norm: float  # S
    longest: float  # L
    log_gamma: float

    def squared_radius(self, belief, r):
        """β of replica r."""
        t, d = belief.count[r], belief.theta.shape[1]
        weight = math.expm1(2.0 * t * self.log_gamma) / math.expm1(2.0 * self.log_gamma)  # Σγ^{2s}, s < t
        growth = d * math.log1p(self.longest * self.longest * weight / (self.lam * d))
        level = self.log_inverse_delta if self.log_inverse_delta >= 0.0 else math.log(t + 1.0)
        root = math.sqrt(self.lam) * self.norm + self.sigma * math.sqrt(2.0 * level + growth)
        return root * root


class WindowedSet(NamedTuple):
    """√β = √λ S + σ √(d log((1 + wL²/λ)/δ)).  Cheung, Simchi-Levi & Zhu (2019), Theorem 2."""

    sigma: float
    log_inverse_delta: float  # negative stands for δ = 1/(t+1)
    lam: float
    norm: float  # S
    longest: float  # L
    window: float  # w

    def squared_radius(self, belief, r):
        """β of replica r."""
        d = belief.theta.shape[1]
        level = self.log_inverse_delta
        if level < 0.0:
            level = math.log(belief.count[r] + 1.0)
        growth = d * (math.log1p(self.window * self.longest * self.longest / self.lam) + level)
        root = math.sqrt(self.lam) * self.norm + self.sigma * math.sqrt(growth)
        return root * root


@deferred("void(f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], intp)")
def solve(V, b, inverse, theta, r):
    """inverse = V⁻¹ and θ̂ = V⁻¹b of replica r."""
    d = V.shape[1]
    if not invert(V, r, inverse[r]):
        padded = V[r : r + 1].copy()
        for k in range(d):
            padded[0, k, k] *= 1.0 + LEAST
        invert(padded, 0, inverse[r])
    for j in range(d):
        theta[r, j] = 0.0
        for k in range(d):
            theta[r, j] += inverse[r, j, k] * b[r, k]


@deferred("void(f8[:,:,::1], f8[:,:,::1], intp)")
def sandwich(middle, inverse, r):
    """inverse ← V⁻¹ṼV⁻¹ of replica r, where it was V⁻¹ and Ṽ is `middle`; symmetric to the last bit."""
    d = middle.shape[1]
    half = np.zeros((d, d))  # V⁻¹Ṽ
    for i in range(d):
        for k in range(d):
            for j in range(d):
                half[i, j] += inverse[r, i, k] * middle[r, k, j]
    whole = np.zeros((d, d))
    for i in range(d):
        for j in range(i + 1):
            for k in range(d):
                whole[i, j] += half[i, k] * inverse[r, j, k]
    for i in range(d):
        for j in range(i + 1):
            inverse[r, i, j] = inverse[r, j, i] = whole[i, j]


@deferred("void(f8[:,:,::1], f8[:,::1], f8[::1], f8[:,:,::1], f8[:,::1], intp)")
def sum_anew(gram, moment, lam, vectors, rewards, r):
    """V = λI + Σ a aᵀ and b = Σ a y of a full window, in replica r."""
    w, d = vectors.shape[1], vectors.shape[2]
    for j in range(d):
        moment[r, j] = 0.0
        for s in range(w):
            moment[r, j] += vectors[r, s, j] * rewards[r, s]
        for k in range(j + 1):
            total = lam[r] if j == k else 0.0
            for s in range(w):
                total += vectors[r, s, j] * vectors[r, s, k]
            gram[r, j, k] = gram[r, k, j] = total
