"""Which arms can still be best: â against every other arm, by the confidence set ‖θ* − θ̂‖ ≤ √β in V.

On the event that the set holds, ⟨θ*, â − a⟩ ≥ Δ̂(a) − √β‖â − a‖ in V⁻¹ for all arms and at all times: an arm
with Δ̂(a) > √β‖â − a‖ is not the best one. Arms are gone through one by one, so that each arm's sums have one
order.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from linmed.kernels.compile import borrowed, inlined, kernel, version_of
from linmed.kernels.confidence import squared_radius
from linmed.kernels.experts import row
from linmed.kernels.ridge import absorb, refresh

ROUNDING = 8.9e-16  # four units in the last place, of every term in a squared distance
SHORT = 1e-60  # differences of arms below this are taken longer first
UNDECIDED, CONTRADICTED = -1, -2


@inlined
def apart(theta, inverse, s, arms, p, i, j, x):
    """⟨θ̂, a_i − a_j⟩ and ‖a_i − a_j‖ in V⁻¹, of set p and replica s.  arms (·,K,d); x (d,) is scratch.

    The distance is taken as large as rounding allows: what is nearly singular must not look certain.
    """
    d = x.shape[0]
    longest = 0.0
    for k in range(d):
        x[k] = arms[p, i, k] - arms[p, j, k]
        longest = max(longest, abs(x[k]))
    if longest == 0.0:
        return 0.0, 0.0
    unit = 1.0
    if longest < SHORT:  # its square would vanish
        unit = longest
        for k in range(d):
            x[k] /= unit
    gap, distance2, rounding = 0.0, 0.0, 0.0
    for k in range(d):
        gap += theta[s, k] * x[k]
        cross = 0.0
        for m in range(k):
            cross += inverse[s, k, m] * x[m]
        distance2 += x[k] * (2.0 * cross + inverse[s, k, k] * x[k])
        rounding += x[k] * x[k] * inverse[s, k, k]
    return gap * unit, math.sqrt(max(distance2, 0.0) + ROUNDING * d * rounding) * unit


@inlined
def half_width(radius, distance):
    """√β‖a − a'‖, where an infinite radius leaves equal arms equal."""
    return radius * distance if distance > 0.0 else 0.0


@inlined
def mean_of(theta, s, arms, p, i):
    """⟨θ̂, a_i⟩."""
    mean = 0.0
    for k in range(arms.shape[2]):
        mean += theta[s, k] * arms[p, i, k]
    return mean


@inlined
def leader(theta, s, arms, p, possible, r):
    """The arm of the largest ⟨θ̂, a⟩ among those with possible[r], the lowest on ties; −1 if there is none."""
    best, highest = -1, -math.inf
    for i in range(arms.shape[1]):
        if possible[r, i]:
            mean = mean_of(theta, s, arms, p, i)
            if mean > highest:
                best, highest = i, mean
    return best


@kernel
def estimate(theta, arms, out):
    """out_i = ⟨θ̂, a_i⟩.  theta (1,d), arms (1,K,d), out (K,)."""
    for i in range(arms.shape[1]):
        out[i] = mean_of(theta, 0, arms, 0, i)


@kernel
def compare(theta, inverse, radius, arms, first, gaps, widths):
    """Arm `first` against every arm: gaps ⟨θ̂, a_first − a⟩ and half-widths √β‖a_first − a‖, (K,) each.

    theta (1,d), inverse (1,d,d), arms (1,K,d).
    """
    x = np.empty(arms.shape[2])
    for i in range(arms.shape[1]):
        gap, distance = apart(theta, inverse, 0, arms, 0, first, i, x)
        gaps[i], widths[i] = gap, half_width(radius, distance)


@inlined
def narrow(theta, inverse, s, radius, arms, p, winner, epsilon, everyone, possible, r, x):
    """Drop from possible[r] what this look rules out: the best arm, its margin, and how many are left.

    The best arm is the winner where there is one (≥ 0), else the leader of those left. Its margin is the
    largest √β‖best − a‖ − ⟨θ̂, best − a⟩ over the others that are left; if the best one alone is left, over
    all others, at most 0. A winner that turns out to be worse by more than ε, which is what had been ruled
    out, leaves none. everyone (1,K) are ones, x (d,) is scratch.
    """
    K = arms.shape[1]
    if not radius >= 0.0:  # not a number: nothing is known
        radius = math.inf
    top = leader(theta, s, arms, p, everyone, 0)
    left = 0
    for i in range(K):
        if possible[r, i]:
            gap, distance = apart(theta, inverse, s, arms, p, top, i, x)
            possible[r, i] = gap <= half_width(radius, distance)
            left += possible[r, i]
    best = winner
    if best < 0:
        best = leader(theta, s, arms, p, possible, r) if left > 0 else top
    margin, behind = -math.inf, -math.inf
    for i in range(K):
        if i != best and (possible[r, i] or left <= 1 or winner >= 0):
            gap, distance = apart(theta, inverse, s, arms, p, best, i, x)
            width = half_width(radius, distance)
            behind = max(behind, -gap - width)
            if possible[r, i] or left <= 1:
                margin = max(margin, width - gap)
    if left == 1 and possible[r, best]:
        margin = min(margin, 0.0)
    if winner >= 0 and behind > epsilon:
        left = 0
        for i in range(K):
            possible[r, i] = False
    return best, margin, left


@kernel
def look_once(theta, inverse, radius, arms, winner, epsilon, possible):
    """`narrow` of one replica.  theta (1,d), inverse (1,d,d), arms (1,K,d), possible (1,K)."""
    x, everyone = np.empty(arms.shape[2]), np.ones((1, arms.shape[1]), np.bool_)
    return narrow(theta, inverse, 0, radius, arms, 0, winner, epsilon, everyone, possible, 0, x)


@cache
def following(Belief: type, Set: type) -> Any:
    """The kernel that absorbs observations into this belief and looks at the arms after each of them."""
    version = version_of(Belief, Set)

    @kernel
    def follow(
        state, confidence, arms, features, rewards, owners, times, epsilon, ends, possible, winner, decided
    ):
        """Absorb m observations, and look at the arms after each of them.

        arms (R or 1,K,d), the same all the time. Observation i, features (m,d), rewards (m,), is of replica
        owners[i] and of time times[i]. possible (R,K), winner and decided (R,) are kept up to date: `decided`
        is the time at which there was a winner, or a contradiction. If that `ends` a replica, it absorbs no
        more.
        """
        version  # noqa: B018
        belief, sure = Belief(*borrowed(state)), Set(*confidence)
        d = features.shape[1]
        u, x, everyone = np.empty(d), np.empty(d), np.ones((1, arms.shape[1]), np.bool_)
        for i in range(features.shape[0]):
            r = owners[i]
            if ends and winner[r] != UNDECIDED:
                continue
            if absorb(belief, r, features, i, rewards[i], u):
                refresh(belief, r)
            if winner[r] == CONTRADICTED:
                continue
            s, p = row(belief, r), r if arms.shape[0] > 1 else 0
            radius = math.sqrt(squared_radius(sure, belief, s))
            best, margin, left = narrow(
                belief.theta, belief.inverse, s, radius, arms, p, winner[r], epsilon, everyone, possible, r, x
            )
            if left == 0:
                winner[r], decided[r] = CONTRADICTED, times[i]
            elif winner[r] == UNDECIDED and (left == 1 or margin <= epsilon):
                winner[r], decided[r] = best, times[i]

    return follow
