"""Ridge estimates with different λ beside each other, of which the likeliest decides.

λ is a prior on θ*, N(0, σ²/λ), and how likely the rewards were under it is known in closed form. With σ
given, −log of their density is D/2 + RSS/2σ² and what all experts have in common; without, it is M of
`confidence.surprise`. The λ are in units of ‖a‖² and, where σ is unknown, the prior scales of σ in units of
the rewards, each the first that is not 0: neither features nor rewards have to be of order one. All experts
learn from every reward; the one that leads is asked. It is chosen before the arm is drawn, from rewards of
the past alone, so the probability of the arm is that expert's, exactly.
"""

from typing import NamedTuple

from linmed.checks import Floats, Ints
from linmed.kernels.compile import by_class, inlined
from linmed.kernels.confidence import surprise
from linmed.kernels.ridge import Ridge, absorb, refresh

SMALLEST = 1e-200  # what is not larger is no unit


class RidgeExperts(NamedTuple):
    """E experts in every replica: row r·E + e is expert e of replica r. Kernels take it as a plain tuple."""

    theta: Floats
    count: Ints  # type: ignore[assignment]
    gram: Floats
    gram_low: Floats
    inverse: Floats
    moment: Floats
    moment_low: Floats
    logdet: Floats
    rss: Floats
    leveraged: Floats
    told: Floats  # (R·E,3) what an expert was told: λ, σ or 0, and the rewards' scale. Minus λ is in
    # units of ‖a‖² that are not known yet, minus the scale stands for one that is not.
    surprise: Floats  # (R·E,) −log of the density of the rewards so far, up to what all have in common
    leader: Ints  # (R,) the expert that decides, the first among equals

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r: every expert learns, then they see who leads."""
        models = Ridge(
            self.theta, self.count, self.gram, self.gram_low, self.inverse, self.moment, self.moment_low,
            self.logdet, self.rss, self.leveraged,
        )  # fmt: skip
        experts = self.count.shape[0] // self.leader.shape[0]
        first = r * experts
        best = first
        settle_units(self, first, experts, features, i, reward)
        for s in range(first, first + experts):
            if absorb(models, s, features, i, reward, u):
                refresh(models, s)
            sigma = self.told[s, 1]
            if sigma > 0.0:
                self.surprise[s] = 0.5 * (self.logdet[s] + self.rss[s] / (sigma * sigma))
            else:
                n = float(self.count[s])
                self.surprise[s] = surprise(n, self.logdet[s], self.rss[s], abs(self.told[s, 2]))
            if self.surprise[s] < self.surprise[best]:
                best = s
        self.leader[r] = best - first
        return False

    def replicas(self):
        """R."""
        return self.leader.shape[0]

    def reward_scale(self, s, scale):
        """Of the rewards seen."""
        return abs(self.told[s, 2])

    def row(self, r):
        """Where the expert stands who decides in replica r."""
        return r * (self.count.shape[0] // self.leader.shape[0]) + self.leader[r]


@inlined
def settle_units(self, first, experts, features, i, reward):
    """Bring λ and the rewards' scale of a replica's experts into the units of what is seen, once.

    θ̂ and D are 0 until then: all features so far were 0, and so is what V has beyond λI.
    """
    if self.told[first, 0] < 0.0:
        length2 = 0.0
        for k in range(features.shape[1]):
            length2 += features[i, k] * features[i, k]
        if length2 > SMALLEST:
            for s in range(first, first + experts):
                lam = -self.told[s, 0] * length2
                self.told[s, 0] = lam
                for k in range(features.shape[1]):
                    self.gram[s, k, k] = lam
                    self.inverse[s, k, k] = 1.0 / lam
    if self.told[first, 2] < 0.0 and abs(reward) > SMALLEST:
        for s in range(first, first + experts):
            self.told[s, 2] = abs(reward)


@by_class
def replicas(belief):
    """How many there are."""
    return belief.count.shape[0]


@by_class
def row(belief, r):
    """Where replica r's estimate stands among all."""
    return r
