"""Ridge estimates with different λ beside each other, of which the likeliest decides.

λ is a prior on θ*, N(0, σ²/λ), and how likely the rewards were under it is known in closed form. With σ
given, −log of their density is D/2 + RSS/2σ² and what all experts have in common; without, it is M of
`confidence.surprise`. All experts learn from every reward; the one that leads is asked. It is chosen before
the arm is drawn, from rewards of the past alone, so the probability of the arm is that expert's, exactly.
"""

from typing import NamedTuple

from linmed.checks import Floats, Ints
from linmed.kernels.compile import by_class
from linmed.kernels.confidence import surprise
from linmed.kernels.ridge import Ridge, absorb, refresh


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
    told: Floats  # (R·E,3) what an expert was told: λ, σ or 0, and the rewards' scale
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
        for s in range(first, first + experts):
            if absorb(models, s, features, i, reward, u):
                refresh(models, s)
            sigma = self.told[s, 1]
            if sigma > 0.0:
                self.surprise[s] = 0.5 * (self.logdet[s] + self.rss[s] / (sigma * sigma))
            else:
                n = float(self.count[s])
                self.surprise[s] = surprise(n, self.logdet[s], self.rss[s], self.told[s, 2])
            if self.surprise[s] < self.surprise[best]:
                best = s
        self.leader[r] = best - first
        return False

    def replicas(self):
        """R."""
        return self.leader.shape[0]

    def row(self, r):
        """Where the expert stands who decides in replica r."""
        return r * (self.count.shape[0] // self.leader.shape[0]) + self.leader[r]


@by_class
def replicas(belief):
    """How many there are."""
    return belief.count.shape[0]


@by_class
def row(belief, r):
    """Where replica r's estimate stands among all."""
    return r
