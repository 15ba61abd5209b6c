"""Reward models that predict a decision before they learn from it, and weights that know only the past."""

import math

import numpy as np

from linmed.kernels.compile import kernel
from linmed.kernels.glm import CONSTANT, FAMILY, Glm
from linmed.kernels.links import mean
from linmed.kernels.ridge import Ridge, absorb, refresh


@kernel
def ridge_predict_learn(state, arms, offsets, chosen, rewards, out):
    """Predict every arm of decision t with the ridge estimate of decisions before t, then learn from it.

    state: a `Ridge` of one replica; arms (ΣK,d); offsets (n+1,); chosen, rewards (n,); out (ΣK,).
    """
    belief = Ridge(*state)
    d = arms.shape[1]
    u = np.empty(d)
    for t in range(rewards.shape[0]):
        for i in range(offsets[t], offsets[t + 1]):
            predicted = 0.0
            for k in range(d):
                predicted += arms[i, k] * belief.theta[0, k]
            out[i] = predicted
        if absorb(belief, 0, arms, chosen[t], rewards[t], u):
            refresh(belief, 0)


@kernel
def glm_predict_learn(state, arms, offsets, chosen, rewards, out):
    """As above with a generalised linear model: a `Glm` of one replica and one expert."""
    belief = Glm(*state)
    told = belief.told[0]
    u = np.empty(arms.shape[1])
    for t in range(rewards.shape[0]):
        for i in range(offsets[t], offsets[t + 1]):
            z = told[CONSTANT] * belief.intercept[0]
            for k in range(arms.shape[1]):
                z += arms[i, k] * belief.theta[0, k]
            out[i] = mean(int(told[FAMILY]), z)
        absorb(belief, 0, arms, chosen[t], rewards[t], u)


@kernel
def rates_predict_learn(sums, counts, lam, offsets, arm, rewards, out):
    """As below, but each arm's mean is drawn towards that of all arms so far, which begins at 1/2."""
    total, count = 0.0, 0.0
    for a in range(sums.shape[0]):
        total += sums[a]
        count += counts[a]
    for t in range(rewards.shape[0]):
        base = (total + 0.5) / (count + 1.0)
        for i in range(offsets[t], offsets[t + 1]):
            a = i - offsets[t]
            out[i] = (sums[a] + lam * base) / (counts[a] + lam)
        sums[arm[t]] += rewards[t]
        counts[arm[t]] += 1.0
        total += rewards[t]
        count += 1.0


@kernel
def means_predict_learn(sums, counts, lam, offsets, arm, rewards, out):
    """As above with one parameter per arm: the arm's mean reward so far, shrunk by λ.  sums, counts (K,)."""
    for t in range(rewards.shape[0]):
        for i in range(offsets[t], offsets[t + 1]):
            a = i - offsets[t]
            out[i] = sums[a] / (counts[a] + lam)
        sums[arm[t]] += rewards[t]
        counts[arm[t]] += 1.0


@kernel
def stable_sums(state, sums, score, proxy):
    """Weights h_t = m_t^{−1/2}, m_t the average of proxies before t, over about the last hundred, from 1 on.

    Adds Σh, ΣhΓ, Σh², Σh²Γ, Σh²Γ² to sums (5,).  state (4,) = count, m, m after a hundred decisions, and its
    largest since; score Γ, proxy (n,).
    """
    count, average = state[0], state[1]
    for t in range(score.shape[0]):
        h = 1.0 / math.sqrt(max(average, 1e-300))
        g = score[t]
        sums[0] += h
        sums[1] += h * g
        sums[2] += h * h
        sums[3] += h * h * g
        sums[4] += h * h * g * g
        count += 1.0
        average += (proxy[t] - average) * max(1.0 / (count + 1.0), 0.01)
        if count <= 100.0:
            state[2], state[3] = average, average
        state[3] = max(state[3], average)
    state[0], state[1] = count, average
