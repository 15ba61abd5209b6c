"""How sure a belief is: confidence sets ‖θ* − θ̂‖² ≤ β in V, of which the rules see β alone.

A set is a named tuple of parameters with one method, `squared_radius(belief, r)` = β of replica r, which may
read whatever the belief keeps. It is written in Python and compiled into every rule that uses it. Those built
in are one class, `RidgeSet`, so that a rule is compiled once for all of them.

With ℓ = log(1/δ), D = log(det V/det V₀), RSS and G the two sums of `Ridge`, r = S or, where no bound on ‖θ*‖
was given, r̄:

    PAPER      β = (σ √(D + 2ℓ) + √λ S)²        noise σ-sub-Gaussian, ‖θ*‖ ≤ S (the paper's eq. (beta))
    MIXTURE    β = λr² + σ² (D + 2ℓ)            the same; never larger
    EMPIRICAL  β = λr² + 2σ²ℓ + G               the same, σ only an upper bound
    GAUSSIAN   β = λr² + max(0, R − RSS)        Gaussian noise of any σ
    STRICT     β = λr² + σ̄² (D + 2 log(2/δ))    strictly sub-Gaussian noise of any σ (E η⁴ ≤ 3σ⁴ follows)
    LEARNED    β = σ² (d + D + 2ℓ)              no proof: empirical Bayes, λ the likeliest, σ̂ for an unknown σ

The proofs are short. MIXTURE: the likelihood ratio of N(0, σ²/λ)-distributed θ to θ* is a supermartingale.
EMPIRICAL: Σ½(η² − e²)/σ² is the exponent of one. GAUSSIAN: the ratio of any predictive density to the true
one is another; here Student's t with a prior scale c, averaged over thirteen of them, whose product
telescopes: −log of it is
    M = ½D + (n/2) log π + log Γ(½) − log Γ((n+1)/2) + ((n+1)/2) log(c² + RSS) − log c,
and n/2·log(2πe RSS*/n) ≤ M + ℓ bounds RSS* = Σ(y − ⟨a,θ*⟩)² by R. STRICT: E exp(−uη²/σ²) ≤ exp(−u + 3u²/2)
bounds RSS* from below, so σ from above. r̄ follows from ‖θ*‖ ≤ ‖θ̂‖ + √(tr V⁻¹ (λ‖θ*‖² + β − λr²)). LEARNED is
MIXTURE for the θ* that the prior N(0, σ²/λ) of the likeliest λ has in mind: λ‖θ*‖² is dσ² on average.

With an intercept there are n − 1 contrasts (`kernels.intercept`), and D, RSS and G are theirs. For
independent Gaussian noise of one size the contrasts are that again, as long as arms were chosen by contrasts
alone. For a fixed δ and a given σ that is not needed: predict every reward but the first as if c were N(y₁ −
⟨a₁,θ⟩, σ²). That density is the contrasts' times n^−½, so Σ_{t≥2} η² ≤ RSS + σ²(D + log n + 2 log(2/δ)); and
‖θ* − θ̂‖² + n η̄² = Σ_{t≥1} η² + λ‖θ*‖² − RSS, with η₁² ≤ 2σ² log(4/δ). So D + 2ℓ becomes D + log n + 2
log(2/δ) + 2 log(4/δ), which bounds the intercept's n η̄² too.
"""

import math
from functools import cache
from typing import Any, NamedTuple

from linmed.kernels.compile import by_class, deferred, inlined, kernel, version_of
from linmed.kernels.ridge import Ridge

PAPER, MIXTURE, EMPIRICAL, GAUSSIAN, STRICT, LEARNED = range(6)
UNKNOWN = -1.0  # stands for S where no bound on ‖θ*‖ was given
SCALES = 13  # prior scales of GAUSSIAN: 10^(−3, −2.5, …, 3) times the rewards' own
KURTOSIS = 3.0  # E η⁴ ≤ 3σ⁴ of STRICT
POINTS, LOWEST, HIGHEST = 32, 0.005, 4.0  # its u: so many, evenly in logarithms
LARGEST = 1e120  # what the rules are told where β is infinite: all that they compute of it stays finite


class RidgeSet(NamedTuple):
    """One of the sets above."""

    kind: int
    sigma: float
    log_inverse_delta: float  # negative stands for δ = 1/(t+1) after t rewards
    lam: float
    norm: float  # S, or UNKNOWN
    scale: float  # of the rewards
    centred: bool  # whether there is an intercept

    def squared_radius(self, belief, r):
        """β of replica r."""
        log_inverse_delta = self.log_inverse_delta
        if log_inverse_delta < 0.0:
            log_inverse_delta = math.log(belief.count[r] + 1.0)
        logdet = max(belief.logdet[r], 0.0)  # where the past fades, less than λI may be left of V
        if self.centred and self.sigma > 0.0 and self.log_inverse_delta >= 0.0:
            logdet += math.log(belief.count[r] + 1.0) + 2.0 * log_inverse_delta + 2.0 * math.log(8.0)
        if self.kind == PAPER:
            root = self.sigma * math.sqrt(logdet + 2.0 * log_inverse_delta)
            root += math.sqrt(self.lam) * self.norm
            return root * root
        return squared_radius_of(
            self.kind, self.sigma, log_inverse_delta, self.lam, self.norm,
            reward_scale(belief, r, self.scale), belief.theta,
            belief.inverse, float(belief.count[r]), logdet, belief.rss[r], belief.leveraged[r], r,
        )  # fmt: skip


@by_class
def reward_scale(belief, s, scale):
    """What the rewards of row s are about as large as: what was told, unless the belief has seen it."""
    return scale


class FixedSet(NamedTuple):
    """β is a number, whatever has been seen."""

    beta: float

    def squared_radius(self, belief, r):
        """β."""
        return self.beta


@by_class
def squared_radius(confidence, belief, r):
    """β of replica r."""


@deferred("f8(intp, f8, f8, f8, f8, f8, f8[:,::1], f8[:,:,::1], f8, f8, f8, f8, intp)")
def squared_radius_of(
    kind, sigma, log_inverse_delta, lam, norm, scale, theta, inverse, n, logdet, rss, leveraged, r
):
    """β of any set but PAPER, in row r of theta and inverse, after n rewards."""
    if kind == LEARNED:
        variance = sigma * sigma if sigma > 0.0 else likely_variance(n, rss, scale)
        return variance * (theta.shape[1] + logdet + 2.0 * log_inverse_delta)
    if kind == MIXTURE:
        beyond = sigma * sigma * (logdet + 2.0 * log_inverse_delta)
    elif kind == EMPIRICAL:
        beyond = 2.0 * sigma * sigma * log_inverse_delta + leveraged
    elif kind == GAUSSIAN:
        beyond = math.inf
        if n > 0.0:
            exponent = 2.0 / n * (surprise(n, logdet, rss, scale) + log_inverse_delta)
            exponent += math.log(n / (2.0 * math.pi)) - 1.0
            beyond = max(0.0, math.exp(min(exponent, 600.0)) - rss)
    else:
        # Rewards that are all alike would leave no noise at all: as little as the smallest scale has is seen.
        seen = max(rss, (1e-3 * scale) ** 2)
        variance = largest_variance(n, logdet, seen, log_inverse_delta + math.log(2.0))
        beyond = variance * (logdet + 2.0 * (log_inverse_delta + math.log(2.0)))
    if norm == UNKNOWN:
        norm = largest_norm(theta, inverse, r, lam, beyond)
    return lam * norm * norm + beyond


@inlined
def of_scales(power, rss, scale):
    """Sums over the prior scales c of GAUSSIAN, each as likely as exp(−power·log(c² + RSS) + log c).

    The least of power·log(c² + RSS) − log c, which is taken out so that no exponential is lost; what is then
    left of the sum; and Σ log(c² + RSS) weighed so.
    """
    least = math.inf
    for g in range(SCALES):
        c = scale * 10.0 ** (0.5 * g - 3.0)
        least = min(least, power * math.log(c * c + rss) - math.log(c))
    total, logarithms = 0.0, 0.0
    for g in range(SCALES):
        c = scale * 10.0 ** (0.5 * g - 3.0)
        logarithm = math.log(c * c + rss)
        share = math.exp(least - (power * logarithm - math.log(c)))
        total += share
        logarithms += share * logarithm
    return least, total, logarithms


@inlined
def surprise(n, logdet, rss, scale):
    """M of GAUSSIAN, −log of the density that was predicted for all n rewards together."""
    power = 0.5 * (n + 1.0)
    least, total, _ = of_scales(power, rss, scale)
    constant = 0.5 * (n + 1.0) * math.log(math.pi) - math.lgamma(power)  # log Γ(½) = ½ log π
    return 0.5 * logdet + constant + least - math.log(total / SCALES)


@inlined
def likely_variance(n, rss, scale):
    """σ̂²: (c² + RSS)/(n + 1) for each scale c of `surprise`, averaged in logarithms as likely as they are.

    It starts in the middle of the scales and is close to RSS/n soon.
    """
    _, total, logarithms = of_scales(0.5 * (n + 1.0), rss, scale)
    return math.exp(logarithms / total) / (n + 1.0)


@kernel
def likely_variances(count, rss, scale, out):
    """`likely_variance` of every replica.  All (R,)."""
    for r in range(out.shape[0]):
        out[r] = likely_variance(float(count[r]), rss[r], scale[r])


@inlined
def largest_variance(n, logdet, rss, log_inverse_delta):
    """σ̄² of STRICT: σ² (c_n − D − 2ℓ) ≤ RSS, where RSS* ≥ σ² c_n for the best u of the grid."""
    c = -math.inf
    for i in range(POINTS):
        u = LOWEST * (HIGHEST / LOWEST) ** (i / (POINTS - 1.0))
        c = max(c, n * (1.0 - 0.5 * KURTOSIS * u) - (log_inverse_delta + math.log(POINTS)) / u)
    left = c - logdet - 2.0 * log_inverse_delta
    return rss / left if left > 0.0 else math.inf


@inlined
def largest_norm(theta, inverse, r, lam, beyond):
    """r̄; infinite as long as λ tr V⁻¹ ≥ 1, where some direction is hardly explored."""
    length2, trace = 0.0, 0.0
    for k in range(theta.shape[1]):
        length2 += theta[r, k] * theta[r, k]
        trace += inverse[r, k, k]
    shrunk = lam * trace
    if not 0.0 <= shrunk < 1.0:
        return math.inf
    root = math.sqrt(shrunk * length2 + (1.0 - shrunk) * trace * beyond)
    return (math.sqrt(length2) + root) / (1.0 - shrunk)


@cache
def radii(Set: type, Belief: type = Ridge) -> Any:
    """The kernel that writes √β of every replica for this class of sets."""

    version = version_of(Set, Belief)

    @kernel
    def radii_of_set(state, parameters, out):
        """state: a belief as a plain tuple; parameters of the set; out (R,)."""
        version  # noqa: B018
        belief, confidence = Belief(*state), Set(*parameters)
        for r in range(out.shape[0]):
            out[r] = math.sqrt(squared_radius(confidence, belief, r))

    return radii_of_set
