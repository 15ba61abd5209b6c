"""Generalised linear models and forgetting once more: a few lines of plain NumPy for one replica.

Every inverse is computed again from its matrix, every root is bracketed, and divergences as their definition
has them. With an intercept the first coordinate is its own: `arm` is (1, a), else a.
"""

import copy
import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, gammaln, logsumexp

CUMULANT = {"logistic": lambda z: np.logaddexp(0.0, z), "poisson": np.exp, "gaussian": lambda z: 0.5 * z * z}
"""m(z), whose derivatives are the mean and the variance of a reward; Gaussian rewards have σ = 1 here."""
MEAN = {"logistic": expit, "poisson": np.exp, "gaussian": lambda z: z}
VARIANCE = {
    "logistic": lambda z: expit(z) * expit(-z),
    "poisson": np.exp,
    "gaussian": lambda z: 1.0 + 0.0 * z,
}
SCALES = 10.0 ** np.arange(-3.0, 3.1, 0.5)
"""The scales that a noise of unknown size may have, in units of the rewards."""


def divergence(family, z, other):
    """kl(z, z*) = m(z*) − m(z) − μ(z)(z* − z)."""
    m = CUMULANT[family]
    return m(other) - m(z) - MEAN[family](z) * (other - z)


class Glm:
    """½‖x‖² in H is the prior, of precision `priors`; one Newton step for each reward."""

    def __init__(self, family, priors):
        self.family, self.priors = family, np.array(priors, dtype=float)
        self.H, self.x, self.n, self.excess = np.diag(self.priors), np.zeros(len(self.priors)), 0.0, 0.0

    def look(self, arm):
        """z, and h = ‖arm‖² in H⁻¹."""
        return arm @ self.x, arm @ np.linalg.solve(self.H, arm)

    def log_density(self, arm, reward):
        """log of the probability predicted for a reward, up to what depends on the reward alone."""
        z, h = self.look(arm)
        if self.family == "gaussian":
            return -0.5 * (math.log(1.0 + h) + (reward - z) ** 2 / (1.0 + h))
        drawn = z / math.sqrt(1.0 + math.pi * h / 8.0)
        return reward * drawn - CUMULANT[self.family](drawn)

    def curvature(self, arm, z, h, after):
        """w = μ′(z′)."""
        return VARIANCE[self.family](after)

    def learn(self, arm, reward, foreseen=None):
        """Minimise ½‖· − x‖² in H plus m(⟨arm, ·⟩) − y⟨arm, ·⟩; `foreseen` is −log of what was predicted."""
        foreseen = -self.log_density(arm, reward) if foreseen is None else foreseen
        mean, (z, h) = MEAN[self.family], self.look(arm)
        reach = 1.0 + h * abs(mean(z) - reward)
        after = brentq(lambda t: t - z + h * (mean(t) - reward), z - reach, z + reach, xtol=1e-15, rtol=1e-15)
        error, weight = mean(after) - reward, self.curvature(arm, z, h, after)
        self.x = self.x - error * np.linalg.solve(self.H, arm)
        self.H = self.H + weight * np.outer(arm, arm)
        paid = CUMULANT[self.family](after) - reward * after
        if self.family == "gaussian":
            paid += 0.5 * reward * reward
        self.excess += 2.0 * (foreseen - paid) - error**2 * h
        self.n += 1.0

    def forget(self, factor):
        """H ← γH, n ← γn."""
        self.H, self.n, self.excess = factor * self.H, factor * self.n, factor * self.excess

    def give_back(self, k, amount):
        """H += c e_k e_kᵀ: an observation along e_k that paid 0."""
        known = self.H @ self.x
        self.H[k, k] += amount
        self.x = np.linalg.solve(self.H, known)


class CertifiedGlm(Glm):
    """The curvature that has a proof: the least over where its own set says that z* is.

    Outside of |z*| ≤ S‖a‖ + 5 it is not looked for.
    """

    def __init__(self, family, priors, norm, within):
        super().__init__(family, priors)
        self.norm, self.within = norm, within

    def curvature(self, arm, z, h, after):
        a = arm[1:] if arm[0] == 1.0 else arm
        bound = self.norm * np.linalg.norm(a) + (5.0 if len(a) < len(arm) else 0.0)
        reach = math.sqrt(max(self.within + self.excess, 0.0) * h)
        ends = np.clip([z - reach, z + reach], -bound, bound)
        return 2.0 * min(divergence(self.family, after, end) / (end - after) ** 2 for end in ends)


def law(model, arms, beta, alpha_emp):
    """p ∝ q f of arms (K,D), log f = −2 kl(z_a, z_â)/(β μ′(z_a) ‖â − a‖²), where q has no design."""
    z, inverse = arms @ model.x, np.linalg.inv(model.H)
    best = int(np.argmax(z))
    log_f = np.zeros(len(arms))
    for i in range(len(arms)):
        apart = arms[best] - arms[i]
        if i != best:
            weight = beta * VARIANCE[model.family](z[i]) * (apart @ inverse @ apart)
            log_f[i] = -2.0 * divergence(model.family, z[i], z[best]) / weight
    q = (1.0 - alpha_emp) / len(arms) + alpha_emp * np.eye(len(arms))[best]
    p = q * np.exp(log_f)
    return p / p.sum()


def optimistic(model, arms, beta):
    """argmax of z + √β ‖arm‖ in H⁻¹."""
    inverse = np.linalg.inv(model.H)
    return int(np.argmax([arm @ model.x + math.sqrt(beta * (arm @ inverse @ arm)) for arm in arms]))


def share(weights, log_densities, s):
    """Fixed shares (Herbster & Warmuth 1998): w ∝ w p, of which a share s is spread evenly."""
    log_w = np.log(weights) + log_densities
    return (1.0 - s) * np.exp(log_w - logsumexp(log_w)) + s / len(weights)


def weakest(weights):
    """The first prior that is not twenty times less likely than the likeliest."""
    return int(np.flatnonzero(weights * 20.0 >= weights.max())[0])


class Ridge:
    """V = Σ γ^age a aᵀ + what there is of λI; noise of size σ, or unknown."""

    def __init__(self, lam, dim, sigma=None):
        self.lam, self.sigma, self.priors = lam, sigma, np.full(dim, lam)
        self.V, self.b, self.n, self.rss = lam * np.eye(dim), np.zeros(dim), 0.0, 0.0

    @property
    def theta(self):
        """θ̂."""
        return np.linalg.solve(self.V, self.b)

    def log_density(self, a, y):
        """Of N(⟨a,θ̂⟩, σ²(1+h)); else of Student's t with n + 1 degrees of freedom, averaged over scales."""
        h, error = a @ np.linalg.solve(self.V, a), y - a @ self.theta
        if self.sigma is not None:
            variance = self.sigma**2 * (1.0 + h)
            return -0.5 * (math.log(2.0 * math.pi * variance) + error**2 / variance)
        nu, spread = self.n + 1.0, SCALES**2 + self.rss
        log_w = np.log(SCALES) - 0.5 * nu * np.log(spread)
        log_t = gammaln(0.5 * nu + 0.5) - gammaln(0.5 * nu) - 0.5 * np.log(math.pi * (1.0 + h) * spread)
        log_t -= 0.5 * (nu + 1.0) * np.log1p(error**2 / ((1.0 + h) * spread))
        return logsumexp(log_w - logsumexp(log_w) + log_t)

    def learn(self, a, y):
        """V += a aᵀ, b += y a; RSS is the least of Σ(y − ⟨a,θ⟩)² and what the prior adds."""
        error, h = y - a @ self.theta, a @ np.linalg.solve(self.V, a)
        self.rss += error**2 / (1.0 + h)
        self.V, self.b, self.n = self.V + np.outer(a, a), self.b + y * a, self.n + 1.0

    def forget(self, factor):
        """All of it counts γ times what it did."""
        self.V, self.b, self.n, self.rss = (
            factor * self.V,
            factor * self.b,
            factor * self.n,
            factor * self.rss,
        )

    def give_back(self, k, amount):
        """V += c e_k e_kᵀ: an observation of size √c along e_k that paid 0."""
        self.rss += amount * self.theta[k] ** 2 / (1.0 + amount * np.linalg.inv(self.V)[k, k])
        self.V[k, k] += amount


class Forgetting:
    """Experts in order of memory, `alike` of them with the same one, and a monitor beside them."""

    def __init__(self, experts, factors, alike, monitor, s, level):
        self.experts, self.factors, self.alike, self.s, self.level = experts, factors, alike, s, level
        self.fresh, self.monitor = monitor, copy.deepcopy(monitor)
        self.weights = np.full(len(experts), 1.0 / len(experts))
        self.count, self.trust, self.loss, self.evidence = 0, 0.5, 0.0, 0.0
        self.adoptions, self.alarms = [], []

    def learn(self, arm, reward):
        """Predict, learn, weigh, adopt, bet."""
        densities = np.array([expert.log_density(arm, reward) for expert in self.experts])
        for expert, factor in zip(self.experts, self.factors, strict=True):
            expert.forget(factor)
            expert.learn(arm, reward)
            k = self.count % len(expert.priors)
            expert.give_back(k, len(expert.priors) * (1.0 - factor) * expert.priors[k])
        self.count += 1
        mixture = logsumexp(np.log(self.weights) + densities)
        self.weights = share(self.weights, densities, self.s)
        self._adopt()
        own = self.monitor.log_density(arm, reward)
        bets = np.array([math.log(self.trust) + own, math.log1p(-self.trust) + mixture])
        part = 1.0 / (1e4 + self.monitor.n + 1.0)
        self.trust = (1.0 - part) * math.exp(bets[0] - logsumexp(bets)) + 0.5 * part
        self.loss -= logsumexp(bets)
        self._watch(arm, reward, -logsumexp(bets))
        if self.evidence >= self.level:
            self.alarms.append((self.count, self.evidence))
            self.monitor, self.trust = copy.deepcopy(self.fresh), 0.5
            self.loss = self.evidence = 0.0

    def _adopt(self):
        memories = self.weights.reshape(-1, self.alike).sum(axis=1)
        heaviest = int(np.argmax(memories))
        for memory in range(heaviest):
            if memories[memory] < 1e-3:
                mine, theirs = (slice(g * self.alike, (g + 1) * self.alike) for g in (memory, heaviest))
                self.experts[mine] = copy.deepcopy(self.experts[theirs])
                self.weights[mine] = self.weights[theirs] / memories[heaviest] / len(memories)
                self.adoptions.append((self.count, memory, heaviest))
        self.weights /= self.weights.sum()


class RidgeForgetting(Forgetting):
    """σ and S are known: Σ(y − ⟨a,θ*⟩)² ≥ RSS − λS²."""

    norm = 1.0

    def _watch(self, arm, reward, foreseen):
        self.monitor.learn(arm, reward)
        variance, seen = self.monitor.sigma**2, self.monitor.rss - self.monitor.lam * self.norm**2
        least = 0.5 * (self.monitor.n * math.log(2.0 * math.pi * variance) + max(seen, 1e-300) / variance)
        self.evidence = least - self.loss


class GlmForgetting(Forgetting):
    """Σℓ(z*) ≥ Σ(ℓ(z′) + s²h/2) − ½‖x*‖² in the prior, `paid`; a tenth of the level is for the curvature."""

    def _watch(self, arm, reward, foreseen):
        self.monitor.learn(arm, reward, foreseen)
        self.evidence = -0.5 * (self.monitor.excess + self.paid) + math.log(0.9)


def on_clock(lam, half_life, features, rewards, times):
    """V and b at the newest time: a reward counts 2^(−age/H).

    Of λ, feature k has what is left since its turn came last, every sixteenth of a half-life.
    """
    now, d = times.max(), features.shape[1]
    weight = 2.0 ** ((times - now) / half_life)
    since = (now - np.arange(d) / d * half_life / 16.0) % (half_life / 16.0)
    V = np.diag(lam * 2.0 ** (-since / half_life)) + (features.T * weight) @ features
    return V, features.T @ (weight * rewards)
