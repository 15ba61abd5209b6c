"""An intercept for ridge estimates: y = c + ⟨a,θ*⟩ + noise, with a flat prior on c.

The n-th reward is compared with the mean of those before it (Helmert's contrasts):

    a′ = √((n−1)/n) (a − ā),   y′ = √((n−1)/n) (y − ȳ),

and the pair (a′, y′) is what ridge regression learns from; the first reward only sets ā and ȳ. Then
V = λI + Σ(a − ā)(a − ā)ᵀ, and θ̂ is what ridge regression on (1, a) finds if c is not shrunk: no number added
to all rewards changes it. Rules see the arms as a − ā: how much better than the mean arm each is.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import inlined
from linmed.kernels.experts import RidgeExperts
from linmed.kernels.ridge import Ridge, absorb


class CentredRidge(NamedTuple):
    """A `Ridge` of contrasts, of which there is one fewer than rewards. Kernels take it as a plain tuple."""

    theta: Floats
    count: Ints  # type: ignore[assignment]  # (R,) contrasts absorbed
    gram: Floats
    gram_low: Floats
    inverse: Floats
    moment: Floats
    moment_low: Floats
    logdet: Floats
    rss: Floats
    leveraged: Floats
    middle: Floats  # (R,d) ā
    level: Floats  # (R,) ȳ
    seen: Ints  # (R,) rewards

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r, as `Ridge.absorb`."""
        row = np.empty((1, u.shape[0]))
        reward = contrast(self.middle, self.level, self.seen, r, features, i, reward, row)
        if self.seen[r] == 1:
            return False
        model = Ridge(
            self.theta, self.count, self.gram, self.gram_low, self.inverse, self.moment, self.moment_low,
            self.logdet, self.rss, self.leveraged,
        )  # fmt: skip
        return absorb(model, r, row, 0, reward, u)

    def rows_moved(self, K):
        """All K."""
        return K

    def move(self, r, arms, p, out):
        """out[0] = a − ā for the arms of set p."""
        from_middle(self.middle, r, arms, p, out)


CentredRidge.refresh = Ridge.refresh  # type: ignore[attr-defined]


class CentredExperts(NamedTuple):
    """`RidgeExperts` of contrasts. Kernels take it as a plain tuple."""

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
    told: Floats
    surprise: Floats
    leader: Ints
    middle: Floats
    level: Floats
    seen: Ints

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r: every expert learns, then they see who leads."""
        row = np.empty((1, u.shape[0]))
        reward = contrast(self.middle, self.level, self.seen, r, features, i, reward, row)
        if self.seen[r] == 1:
            return False
        models = RidgeExperts(
            self.theta, self.count, self.gram, self.gram_low, self.inverse, self.moment, self.moment_low,
            self.logdet, self.rss, self.leveraged, self.told, self.surprise, self.leader,
        )  # fmt: skip
        return absorb(models, r, row, 0, reward, u)

    def rows_moved(self, K):
        """All K."""
        return K

    def move(self, r, arms, p, out):
        """out[0] = a − ā for the arms of set p."""
        from_middle(self.middle, r, arms, p, out)


for _name in ("replicas", "row", "reward_scale"):
    setattr(CentredExperts, _name, getattr(RidgeExperts, _name))


@inlined
def contrast(middle, level, seen, r, features, i, reward, out):
    """Writes a′ to out (1,d) and returns y′; ā, ȳ and n are those with this reward from now on."""
    seen[r] += 1
    n = float(seen[r])
    root = math.sqrt((n - 1.0) / n)
    for k in range(middle.shape[1]):
        apart = features[i, k] - middle[r, k]
        out[0, k] = root * apart
        middle[r, k] += apart / n
    apart = reward - level[r]
    level[r] += apart / n
    return root * apart


@inlined
def from_middle(middle, r, arms, p, out):
    """out[0] = a − ā for the arms of set p.  middle (R,d), out (1,K,d)."""
    for i in range(out.shape[1]):
        for k in range(out.shape[2]):
            out[0, i, k] = arms[p, i, k] - middle[r, k]
