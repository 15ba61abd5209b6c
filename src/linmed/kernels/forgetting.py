"""Ridge estimates that forget at different rates, weighed by how well they predict; the heaviest decides.

What is done for every reward is said in memories.py. Here an expert's density of a reward is
N(⟨a,θ̂⟩, σ²(1 + h)), Student's t where σ is unknown, and each forgets by the steps of fading.py.

The test, for noise that is σ-sub-Gaussian and σ told. The least that the rewards can have cost is, with the
monitor's RSS,
    L = (n/2) log 2πσ² + (RSS − P)/2σ²
since Σ(y − ⟨a,θ*⟩)² ≥ RSS − P, where P = λS² or, without a bound on ‖θ*‖, λ‖θ̂‖²/(1 − λ tr V⁻¹): the least
over all θ. The experts' densities are mixtures over θ of N(⟨a,θ⟩, σ²): log E is at most the logarithm of a
supermartingale.

The test where σ is unknown (`wager`). Every bet is made as if the noise had a size s, known before the
reward, that is no less than σ: the monitor learns with weights 1/s² and the experts' densities are
N(⟨a,θ̂⟩, s²(1 + h)), so the sum above is Σ(y − ⟨a,θ*⟩)²/s² and the rest is as if σ = s had been told.
    s² = Σe²/κ,    κ = max over u of n log(1 + 2u)/2u − log(8/δ)/u,    u = 1, ½, …, 1/128,    δ = α/10
where e is the error of a prediction made beforehand, the mean of the experts'. For Gaussian noise and any
such prediction E exp(−ue²/σ²) ≤ (1 + 2u)^−½, as if it had been right: P(s < σ, ever) ≤ δ. The other 9/10 of α
are the test's, hence log 9/10 in log E.
So far one large reward can decide a bet that was made by chance, and s misses tails that it has not seen.
Therefore rewards are clipped at CLIP·s on both sides of what the monitor predicts (the experts, while it
knows little), and no bet is farther than MOST·s from that. Of Gaussian rewards the first moves one in 16,000
and the mean by 2e-5 s, which the proof leaves out; of a Gaussian, a clipped one is as sub-Gaussian, clipping
being 1-Lipschitz. For other noise the level is not proved but measured (benchmarks/drift.py --only tails).
Where experts know little, h > VAGUE, nothing is bet, nor while s² is more than twice the mean of e²: for the
first hundred rewards. The unit of rewards plays no part.

On a clock V, b, n, RSS and θ̂ are functions of what was rewarded and when it was decided, whatever the order
in which rewards come.
"""

import math
from typing import NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import borrowed, deferred, inlined
from linmed.kernels.confidence import SCALES, UNKNOWN
from linmed.kernels.fading import forget_and_learn, look
from linmed.kernels.memories import LEVEL, SHARE, adopt, alarmed, begin, bet, pass_time, weigh
from linmed.kernels.ridge import REFRESH, Ridge, refresh

LEAST = 1e-300  # of RSS − P
NORM = 2  # of `rules`, behind SHARE and LEVEL: S or UNKNOWN, which it always is where σ is unknown
UNPROVED = 0.1  # the share of an alarm's level for the case that s < σ
CLIP, MOST, VAGUE = 4.0, 1.0, 0.5
SQUARES, SEEN, UNIT, CLIPPED, QUIET = range(5)
"""Of `spread`: Σe² and how many; s² at the first bet; rewards that were clipped, and how many of them when
log E was last ≤ 0. Where σ is told none is clipped: they are those farther than CLIP·σ from every expert."""
_RATES = np.array([0.5**j for j in range(8)])  # u
_SLOPES = np.array([math.log1p(2.0 * u) / (2.0 * u) for u in _RATES])
LAMBDA, SIGMA, SCALE, FACTOR, LOG_FACTOR, SECONDS = range(6)
"""Of `told`: λ; σ or 0; the rewards' scale; γ and log γ for every reward; the half-life on a clock, or 0."""
_WIDTHS = 10.0 ** (0.5 * np.arange(SCALES) - 3.0)  # the prior scales of `confidence.surprise`


class Forgetting(NamedTuple):
    """N experts and a monitor in every replica: row r·(N+1) + e. Kernels take it as a plain tuple.

    Experts are in order of memory, the longest first, those of one memory in order of λ.
    """

    theta: Floats
    count: Floats  # type: ignore[assignment]  # n, what is left of the number of rewards
    gram: Floats
    gram_low: Floats
    inverse: Floats
    moment: Floats
    moment_low: Floats
    logdet: Floats
    rss: Floats
    leveraged: Floats
    told: Floats  # (R·(N+1),6) what each was told
    weight: Floats  # (R,N)
    score: Floats  # (R,N+1) log-likelihood of the last reward
    rules: Floats  # (R,3) what all have in common
    leader: Ints  # (R,) the expert that decides, the first among equals
    rewards: Ints  # (R,) absorbed so far
    clock: Floats  # (R,) time of the newest decision that was rewarded, 0 where nobody told
    trust: Floats  # (R,) of the bettor in the monitor
    loss: Floats  # (R,) M since the test began
    evidence: Floats  # (R,) log E
    happened: Ints  # (R,2) adoptions and alarms so far
    adoptions: Floats  # (R,KEPT,4) of the last ones: number of the reward, time, who took over, from whom
    alarms: Floats  # (R,KEPT,3) number of the reward, time, log E
    spread: Floats  # (R,5) how large the test takes the noise to be, and how often it was larger

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r, its time unknown."""
        learn_at(parts(self), r, features, i, reward, self.clock[r], u)
        return False

    def absorb_at(self, r, features, i, reward, time, u):
        """One observation of replica r, whose decision was taken at `time`."""
        learn_at(parts(self), r, features, i, reward, time, u)

    def replicas(self):
        """R."""
        return self.leader.shape[0]

    def row(self, r):
        """Where the expert stands who decides in replica r."""
        return r * (self.weight.shape[1] + 1) + self.leader[r]

    def same_memory(self, s, other):
        """Whether the experts of two rows forget alike."""
        told = self.told
        return told[s, FACTOR] == told[other, FACTOR] and told[s, SECONDS] == told[other, SECONDS]

    def take_over(self, to, source, rows):
        """What `rows` experts from row `source` on know becomes what those from `to` on do."""
        copy_rows(
            self.theta, self.count, self.gram, self.gram_low, self.inverse, self.moment, self.moment_low,
            self.logdet, self.rss, self.leveraged, to, source, rows,
        )  # fmt: skip


@inlined
def parts(belief):
    """A `Forgetting` as a plain tuple."""
    return (
        belief.theta, belief.count, belief.gram, belief.gram_low, belief.inverse, belief.moment,
        belief.moment_low, belief.logdet, belief.rss, belief.leveraged, belief.told, belief.weight,
        belief.score, belief.rules, belief.leader, belief.rewards, belief.clock, belief.trust, belief.loss,
        belief.evidence, belief.happened, belief.adoptions, belief.alarms, belief.spread,
    )  # fmt: skip


@deferred(
    "void(Tuple((f8[:,::1], f8[::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1],"
    "f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1], i8[::1], f8[::1], f8[::1],"
    "f8[::1], f8[::1], i8[:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1])), intp, f8[:,::1], intp, f8, f8,"
    "f8[::1])"
)
def learn_at(state, r, features, i, reward, time, u):
    """One observation of replica r, whose decision was taken at `time`; compiled once for all rules."""
    belief, features, u = Forgetting(*borrowed(state)), borrowed(features), borrowed(u)
    model = Ridge(
        belief.theta, belief.count,  # type: ignore[arg-type]
        belief.gram, belief.gram_low, belief.inverse, belief.moment, belief.moment_low, belief.logdet,
        belief.rss, belief.leveraged,
    )  # fmt: skip
    d, experts = u.shape[0], belief.weight.shape[1]
    first = r * (experts + 1)
    turn = belief.rewards[r] % d
    polish = (belief.rewards[r] + 1) % REFRESH == 0
    begun = belief.rewards[r] > 0
    before = belief.clock[r] if begun else time
    now = max(before, time)
    known, nearest = (0.0, 0.0, 0.0, 0.0), math.inf
    sure = belief.told[first, SIGMA] > 0.0
    ahead = np.empty((experts + 1, 3))  # what each predicts, its h, and the logarithm of its bet
    for s in range(first, first + (experts + 1 if sure else experts)):
        h, predicted = look(model, s, features, i, u)
        ahead[s - first, 0], ahead[s - first, 1] = predicted, h
        error = reward - predicted
        nearest = min(nearest, abs(error) / math.sqrt(1.0 + h))
        seen = (model.count[s], model.rss[s], h, error)
        if s == first:
            known = seen
        if s == first + experts and seen == known:  # the monitor, while the first has not begun anew
            belief.score[r, experts] = belief.score[r, 0]
        else:
            sigma, scale = belief.told[s, SIGMA], belief.told[s, SCALE]
            belief.score[r, s - first] = log_likelihood(sigma, scale, model.count[s], model.rss[s], h, error)
        f, w, c = belief.told[s, FACTOR], 1.0, 0.0
        if belief.told[s, SECONDS] > 0.0:
            f = 1.0
            if not begun:
                begin(model, s, belief.told[s, LAMBDA], 0.0, belief.told[s, SECONDS], now, u)
            elif now > before:
                lam, seconds = belief.told[s, LAMBDA], belief.told[s, SECONDS]
                pass_time(model, s, lam, 0.0, seconds, before, now, u)
            w = 2.0 ** ((time - now) / belief.told[s, SECONDS])
            h, predicted = look(model, s, features, i, u)
            error = reward - predicted
        elif f < 1.0:
            c = d * (1.0 - f) * belief.told[s, LAMBDA]
        log_f = belief.told[s, LOG_FACTOR]
        if forget_and_learn(model, s, features, i, reward, h, error, u, f, log_f, w, turn, c) or polish:
            refresh(model, s)
    belief.rewards[r] += 1
    belief.clock[r] = now
    s = first + experts
    if not sure:
        wager(belief, model, s, features, i, reward, time, ahead, u, r, polish)
    mixture = weigh(belief.weight, belief.score, r, belief.rules[r, SHARE])
    adopt(belief, r)
    if sure:
        bet(belief, r, model.count[s], mixture)
        sigma, lam = belief.told[s, SIGMA], belief.told[s, LAMBDA]
        seen = least_squares(model, s, lam, belief.rules[r, NORM])
        least = 0.5 * (model.count[s] * math.log(2.0 * math.pi * sigma * sigma) + seen / (sigma * sigma))
        if nearest > CLIP * sigma:
            belief.spread[r, CLIPPED] += 1.0
        if alarmed(belief, r, least, time):
            restart(model, s, lam)
            belief.spread[r, CLIPPED] = belief.spread[r, QUIET]
        elif belief.evidence[r] <= 0.0:
            belief.spread[r, QUIET] = belief.spread[r, CLIPPED]


@inlined
def wager(belief, model, s, features, i, reward, time, ahead, u, r, polish):
    """log E of replica r where σ is unknown, and its monitor, row s, learns; weights are as they were.

    The terms ½ log 2πs² of L and M are left out of both.
    """
    weight, spread = belief.weight[r], belief.spread[r]
    experts = weight.shape[0]
    centre, vague = 0.0, 0.0
    for e in range(experts):
        centre += weight[e] * ahead[e, 0]
        vague += weight[e] * ahead[e, 1]
    if not vague <= VAGUE:
        return
    kappa = least_chi_square(spread[SEEN], belief.rules[r, LEVEL] + math.log(len(_RATES) / UNPROVED))
    s2 = spread[SQUARES] / kappa if 2.0 * kappa >= max(spread[SEEN], 1.0) else 0.0
    error = reward - centre
    if 0.0 < s2 < math.inf:
        if spread[UNIT] == 0.0:
            spread[UNIT] = s2
        size, w = math.sqrt(s2), spread[UNIT] / s2
        h, predicted = look(model, s, features, i, u)
        middle = predicted if w * h <= VAGUE else centre
        clipped = min(max(reward, middle - CLIP * size), middle + CLIP * size)
        if clipped != reward:
            spread[CLIPPED] += 1.0
        centre, best = 0.0, -math.inf
        for e in range(experts):
            mean = min(max(ahead[e, 0], middle - MOST * size), middle + MOST * size)
            centre += weight[e] * mean
            ahead[e, 2] = standard_loss(clipped - mean, s2, ahead[e, 1])
            best = max(best, -ahead[e, 2])
        total = 0.0
        for e in range(experts):
            total += weight[e] * math.exp(-ahead[e, 2] - best)
        error = clipped - predicted
        belief.score[r, experts] = -standard_loss(error, s2, w * h)
        bet(belief, r, model.count[s], best + math.log(total))
        if forget_and_learn(model, s, features, i, clipped, h, error, u, 1.0, 0.0, w, 0, 0.0) or polish:
            refresh(model, s)
        error = clipped - centre
        least = 0.5 * least_squares(model, s, belief.told[s, LAMBDA], UNKNOWN) / spread[UNIT]
        if alarmed(belief, r, least + math.log1p(-UNPROVED), time):
            restart(model, s, belief.told[s, LAMBDA])
            spread[CLIPPED] = spread[QUIET]
            spread[SQUARES] = spread[SEEN] = spread[UNIT] = 0.0
            return
        if belief.evidence[r] <= 0.0:
            spread[QUIET] = spread[CLIPPED]
    spread[SQUARES] += error * error
    spread[SEEN] += 1.0


@inlined
def standard_loss(error, s2, h):
    """−log of the density of N(0, s²(1+h)) at `error`, but for ½ log 2πs²."""
    return 0.5 * (math.log1p(h) + error * error / (s2 * (1.0 + h)))


@inlined
def least_chi_square(n, log_inverse_delta):
    """κ: what Σe²/σ² of n errors is at least, for every n at once, with probability 1 − δ."""
    most = 0.0
    for j in range(len(_RATES)):
        most = max(most, n * _SLOPES[j] - log_inverse_delta / _RATES[j])
    return most


@inlined
def log_likelihood(sigma, scale, n, rss, h, error):
    """log of the density that an expert has for a reward: of N(0, σ²(1+h)), or of Student's t, at `error`.

    t has n + 1 degrees of freedom and the scale (1 + h)(c² + RSS)/(n + 1), for each c of
    `confidence.surprise`, weighed as likely as n rewards with this RSS have made it.
    """
    if sigma > 0.0:
        variance = sigma * sigma * (1.0 + h)
        return -0.5 * (math.log(2.0 * math.pi * variance) + error * error / variance)
    power, more = 0.5 * (n + 1.0), error * error / (1.0 + h)
    least = (scale * _WIDTHS[0]) ** 2  # Σ c (c² + RSS)^(−power), in units of its first term: no overflow
    share, share_after = 0.0, 0.0
    for g in range(SCALES):
        squared = (scale * _WIDTHS[g]) ** 2
        ratio = _WIDTHS[g] / _WIDTHS[0]
        one = ratio * math.exp(-power * math.log((squared + rss) / (least + rss)))
        after = (squared + rss + more) / (least + rss + more)
        other = ratio * math.exp(-(power + 0.5) * math.log(after))
        share, share_after = share + one, share_after + other
        if one < 1e-18 * share and other < 1e-18 * share_after:  # so are those of all larger c
            break
    constant = half_step(power) - 0.5 * math.log(math.pi * (1.0 + h))
    constant += power * math.log(least + rss) - (power + 0.5) * math.log(least + rss + more)
    return constant + math.log(share_after / share)


@inlined
def half_step(x):
    """log Γ(x + ½) − log Γ(x), by its series where x is large: it is off by 3e-14 at most."""
    if x < 16.0:
        return math.lgamma(x + 0.5) - math.lgamma(x)
    y = 1.0 / (x * x)
    return 0.5 * math.log(x) - (0.125 - y * (1 / 192 - y * (1 / 640 - y * (17 / 14336)))) / x


@deferred(
    "void(f8[:,::1], f8[::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1],"
    "f8[::1], intp, intp, intp)"
)
def copy_rows(
    theta, count, gram, gram_low, inverse, moment, moment_low, logdet, rss, leveraged, to, source, rows
):
    """What `rows` experts from `source` on know becomes what those from `to` on do."""
    for e in range(rows):
        a, b = to + e, source + e
        theta[a], count[a], gram[a], gram_low[a] = theta[b], count[b], gram[b], gram_low[b]
        inverse[a], moment[a], moment_low[a] = inverse[b], moment[b], moment_low[b]
        logdet[a], rss[a], leveraged[a] = logdet[b], rss[b], leveraged[b]


@inlined
def least_squares(model, s, lam, norm):
    """RSS − P of row s, no more than Σ(y − ⟨a,θ*⟩)²; LEAST where nothing is known of it."""
    penalty = lam * norm * norm
    if norm == UNKNOWN:
        length2, trace = 0.0, 0.0
        for k in range(model.theta.shape[1]):
            length2 += model.theta[s, k] * model.theta[s, k]
            trace += model.inverse[s, k, k]
        if not 0.0 <= lam * trace < 1.0:
            return LEAST
        penalty = lam * length2 / (1.0 - lam * trace)
    return max(model.rss[s] - penalty, LEAST)


@inlined
def restart(model, s, lam):
    """Row s as before any reward."""
    d = model.theta.shape[1]
    for j in range(d):
        model.theta[s, j] = model.moment[s, j] = model.moment_low[s, j] = 0.0
        for k in range(d):
            model.gram[s, j, k] = lam if j == k else 0.0
            model.gram_low[s, j, k] = 0.0
            model.inverse[s, j, k] = 1.0 / lam if j == k else 0.0
    model.count[s] = model.logdet[s] = model.rss[s] = model.leveraged[s] = 0.0
