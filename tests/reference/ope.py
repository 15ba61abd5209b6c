"""Off-policy evaluation's sums once more: one decision after the other, in plain Python and NumPy."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

CUT = 0.9


def gains(bets, x, shift, mass=None, guard=None, probability=None, offsets=None, chosen=None):
    """Σ_t log(1 + γ y_t) of every bet γ, y = x − s; −∞ where a shift could cost CUT/2 of the stake or more.

    With a reward model y has Σ_a m(a) − m(a_t)/p_t added to it, m(a) = min(π(a) q(a), (CUT/γ − s) c(a)).
    """
    found = np.zeros(len(bets))
    for j, bet in enumerate(bets):
        if bet * shift.max() >= CUT / 2.0:
            found[j] = -math.inf
            continue
        for t in range(len(x)):
            y = x[t] - shift[t]
            if mass is not None:
                arms = slice(offsets[t], offsets[t + 1])
                kept = np.minimum(mass[arms], (CUT / bet - shift[t]) * guard[arms])
                y += kept.sum() - kept[chosen[t] - offsets[t]] / probability[t]
            found[j] += math.log1p(bet * y)
    return found


def log_wealth(gained, bets, log_prior, count, mean):
    """log Σ_j prior_j exp(gains_j) / (1 + γ_j m)^n."""
    return float(np.logaddexp.reduce(log_prior + gained - count * np.log1p(bets * mean)))


def betting_lower(gained, bets, log_prior, count, log_level):
    """The mean at which the wealth is 1/α, by bisection between 0 and 1."""
    return brentq(lambda m: log_wealth(gained, bets, log_prior, count, m) - log_level, 0.0, 1.0, xtol=1e-14)


def stable(score, proxy):
    """Q̂ = Σ h Γ/Σ h and Σ h²(Γ − Q̂)², h_t = m_t^{−1/2}, m_t an average of proxies before t."""
    h, average = np.empty(len(score)), 1.0
    for t in range(len(score)):
        h[t] = average**-0.5
        average += (proxy[t] - average) * max(1.0 / (t + 2.0), 0.01)
    estimate = h @ score / h.sum()
    return estimate, ((h * (score - estimate)) ** 2).sum()


def ridge_predictions(lam, arms, offsets, chosen, rewards):
    """⟨θ̂, a⟩ of every arm of decision t, where θ̂ solves the normal equations of the decisions before t."""
    out = np.empty(len(arms))
    for t in range(len(rewards)):
        A, here = arms[chosen[:t]], slice(offsets[t], offsets[t + 1])
        theta = np.linalg.solve(lam * np.eye(arms.shape[1]) + A.T @ A, A.T @ rewards[:t])
        out[here] = arms[here] @ theta
    return out


def logistic_predictions(precision, arms, offsets, chosen, rewards):
    """μ(c + ⟨a,θ̂⟩) of every arm; after each decision (c, θ̂) moves to where ½‖·‖² in H plus its loss is least.

    There z′ = z − h (μ(z′) − y), h = ‖(1, a)‖² in H⁻¹; and then H += μ′(z′) (1, a)(1, a)ᵀ. precision (d+1,)
    is the diagonal of H before any reward, the intercept's first.
    """
    H, beta = np.diag(precision), np.zeros(len(precision))
    rows, out = np.column_stack([np.ones(len(arms)), arms]), np.empty(len(arms))
    for t, y in enumerate(rewards):
        here, a = slice(offsets[t], offsets[t + 1]), rows[chosen[t]]
        out[here] = expit(rows[here] @ beta)
        u, z = np.linalg.solve(H, a), a @ beta
        h = a @ u
        after = brentq(lambda x, z=z, h=h, y=y: x - z + h * (expit(x) - y), z - h, z + h, xtol=1e-15)
        beta = beta - (expit(after) - y) * u
        H = H + expit(after) * expit(-after) * np.outer(a, a)
    return out


def mean_predictions(lam, offsets, arm, rewards, drawn):
    """Every arm's mean so far, as if λ more rewards of 0, or of the mean of all arms, had been seen."""
    out = np.empty(offsets[-1])
    for t in range(len(rewards)):
        past = rewards[:t]
        base = (past.sum() + 0.5) / (t + 1.0) if drawn else 0.0
        for a in range(offsets[t + 1] - offsets[t]):
            own = past[arm[:t] == a]
            out[offsets[t] + a] = (own.sum() + lam * base) / (len(own) + lam)
    return out
