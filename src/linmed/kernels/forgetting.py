"""Ridge estimates that forget at different rates, weighed by how well they predict; the heaviest decides.

For every reward, in this order (fixed share, Herbster & Warmuth 1998, with one step more):
1. each expert says how likely the reward was: N(⟨a,θ̂⟩, σ²(1 + h)), Student's t where σ is unknown;
2. all experts learn, each with its own rate of forgetting (fading.py);
3. w ∝ w·exp(log-likelihood), then w ← (1 − s)w + s/N;
4. adoption: where one memory has come to weigh less than 1/1000 and the heaviest is shorter, it takes over what
   that one knows, and 1/G of the weight: a long memory forgets a dead past and begins anew.
Experts may differ in λ too. A memory's weight is then that of all its λ together, and what it takes over goes
from λ to the same λ.

Beside them a monitor neither forgets nor adopts. With M = −Σ log Σ_g w_g p_g(y), what the mixture of all experts
has lost, and RSS the monitor's, while θ* is one and the same
    log E = (n/2) log 2πσ² + (RSS − P)/2σ² − M           noise σ-sub-Gaussian, σ told
    log E = (n/2) log(2πe (RSS − P)/n) − M               Gaussian noise of any σ
is at most the logarithm of a supermartingale that starts at 1: the experts' densities are mixtures over θ of
N(⟨a,θ⟩, σ²), or any densities, and Σ(y − ⟨a,θ*⟩)² ≥ RSS − P, where P = λS² or, without a bound on ‖θ*‖,
λ‖θ̂‖²/(1 − λ tr V⁻¹): the least over all θ. So P(log E ≥ log 1/α, ever) ≤ α. At an alarm the test begins anew.

On a clock, half-lives are durations: a reward counts 2^(−age/H), age from its decision to the newest one known.
λ is given back by the clock alone, to direction k whenever another sixteenth of a half-life has passed, the
directions in turn. V, b, n, RSS and θ̂ are then functions of what was rewarded and when it was decided,
whatever the order in which rewards come.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from linmed.checks import Floats, Ints
from linmed.kernels.compile import borrowed, deferred, inlined, kernel, version_of
from linmed.kernels.confidence import SCALES, UNKNOWN
from linmed.kernels.fading import fade, forget_and_learn, give_back, look
from linmed.kernels.ridge import REFRESH, Ridge, refresh

NEGLIGIBLE = 1e-3  # the weight below which a memory gives up its own past
PARTS = 16  # how often in a half-life λ is given back to a direction, on a clock
STRIDE, REACH = 8.0, 64.0  # half-lives that fade in one step, and beyond which nothing is left
KEPT = 16  # adoptions and alarms that are remembered
LEAST = 1e-300  # of RSS − P
SHARE, LEVEL, NORM = range(3)  # of `rules`: s; log 1/α; S or UNKNOWN
LAMBDA, SIGMA, SCALE, FACTOR, SECONDS = range(5)  # of `told`: λ; σ or 0; of the rewards; γ; H on a clock or 0


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
    told: Floats  # (R·(N+1),5) what each was told
    weight: Floats  # (R,N)
    score: Floats  # (R,N) log-likelihood of the last reward
    rules: Floats  # (R,3) what all have in common
    leader: Ints  # (R,) the expert that decides, the first among equals
    rewards: Ints  # (R,) absorbed so far
    clock: Floats  # (R,) time of the newest decision that was rewarded, 0 where nobody told
    loss: Floats  # (R,) M since the test began
    evidence: Floats  # (R,) log E
    happened: Ints  # (R,2) adoptions and alarms so far
    adoptions: Floats  # (R,KEPT,4) of the last ones: number of the reward, time, who took over, from whom
    alarms: Floats  # (R,KEPT,3) number of the reward, time, log E

    def absorb(self, r, features, i, reward, u):
        """One observation of replica r, its time unknown."""
        absorb_at(self, r, features, i, reward, self.clock[r], u)
        return False

    def replicas(self):
        """R."""
        return self.leader.shape[0]

    def row(self, r):
        """Where the expert stands who decides in replica r."""
        return r * (self.weight.shape[1] + 1) + self.leader[r]


@cache
def observing_at(Belief: type) -> Any:
    """The kernel that absorbs observations whose time is known."""
    version = version_of(Belief)

    @kernel
    def observe(state, features, rewards, times, owners):
        """The i-th of m belongs to replica owners[i].  features (m,d), rewards, times, owners (m,)."""
        version  # noqa: B018
        belief = Belief(*borrowed(state))
        u = np.empty(features.shape[1])
        for i in range(features.shape[0]):
            absorb_at(belief, owners[i], features, i, rewards[i], times[i], u)

    return observe


@inlined
def absorb_at(belief, r, features, i, reward, time, u):
    """One observation of replica r, whose decision was taken at `time`."""
    model = Ridge(
        belief.theta, belief.count, belief.gram, belief.gram_low, belief.inverse, belief.moment,
        belief.moment_low, belief.logdet, belief.rss, belief.leveraged,
    )  # fmt: skip
    d, experts = u.shape[0], belief.weight.shape[1]
    first = r * (experts + 1)
    turn = belief.rewards[r] % d
    polish = (belief.rewards[r] + 1) % REFRESH == 0
    begun = belief.rewards[r] > 0
    before = belief.clock[r] if begun else time
    now = max(before, time)
    for s in range(first, first + experts + 1):
        h, predicted = look(model, s, features, i, u)
        error = reward - predicted
        if s < first + experts:
            belief.score[r, s - first] = log_likelihood(
                belief.told[s, SIGMA], belief.told[s, SCALE], model.count[s], model.rss[s], h, error
            )
        f, w, k, c = belief.told[s, FACTOR], 1.0, -1, 0.0
        if belief.told[s, SECONDS] > 0.0:
            f = 1.0
            if not begun:
                begin(model, s, belief.told[s, LAMBDA], belief.told[s, SECONDS], now)
            elif now > before:
                pass_time(model, s, belief.told[s, LAMBDA], belief.told[s, SECONDS], before, now)
            w = 2.0 ** ((time - now) / belief.told[s, SECONDS])
            h, predicted = look(model, s, features, i, u)
            error = reward - predicted
        elif f < 1.0:
            k, c = turn, d * (1.0 - f) * belief.told[s, LAMBDA]
        if forget_and_learn(model, s, features, i, reward, h, error, u, f, w, k, c) or polish:
            refresh(model, s)
    belief.rewards[r] += 1
    belief.clock[r] = now
    belief.loss[r] -= weigh(belief.weight, belief.score, r, belief.rules[r, SHARE])
    adopt(
        model.theta, model.count, model.gram, model.gram_low, model.inverse, model.moment, model.moment_low,
        model.logdet, model.rss, model.leveraged, belief.told, belief.weight, belief.leader, belief.rewards,
        belief.clock, belief.happened, belief.adoptions, r,
    )  # fmt: skip
    monitor = first + experts
    sigma, lam = belief.told[monitor, SIGMA], belief.told[monitor, LAMBDA]
    seen = least_squares(model, monitor, lam, belief.rules[r, NORM])
    belief.evidence[r] = best_loss(sigma, model.count[monitor], seen) - belief.loss[r]
    if belief.evidence[r] >= belief.rules[r, LEVEL]:
        alarm = belief.happened[r, 1] % KEPT
        belief.alarms[r, alarm, 0] = belief.rewards[r]
        belief.alarms[r, alarm, 1] = time
        belief.alarms[r, alarm, 2] = belief.evidence[r]
        belief.happened[r, 1] += 1
        belief.loss[r] = belief.evidence[r] = 0.0
        restart(model, monitor, lam)


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
    least, least_after = math.inf, math.inf
    for g in range(SCALES):
        c = scale * 10.0 ** (0.5 * g - 3.0)
        least = min(least, power * math.log(c * c + rss) - math.log(c))
        least_after = min(least_after, (power + 0.5) * math.log(c * c + rss + more) - math.log(c))
    share, share_after = 0.0, 0.0
    for g in range(SCALES):
        c = scale * 10.0 ** (0.5 * g - 3.0)
        share += math.exp(least - (power * math.log(c * c + rss) - math.log(c)))
        share_after += math.exp(least_after - ((power + 0.5) * math.log(c * c + rss + more) - math.log(c)))
    constant = math.lgamma(power + 0.5) - math.lgamma(power) - 0.5 * math.log(math.pi * (1.0 + h))
    return constant + least - least_after + math.log(share_after / share)


@inlined
def weigh(weight, score, r, share):
    """Row r of weight ∝ weight·exp(score), a share spread evenly; returns log of the mixture's density."""
    experts = weight.shape[1]
    best = score[r, 0]
    for e in range(1, experts):
        best = max(best, score[r, e])
    total = 0.0
    for e in range(experts):
        weight[r, e] *= math.exp(score[r, e] - best)
        total += weight[r, e]
    for e in range(experts):
        weight[r, e] = (1.0 - share) * (weight[r, e] / total) + share / experts
    return best + math.log(total)


@inlined
def adopt(
    theta, count, gram, gram_low, inverse, moment, moment_low, logdet, rss, leveraged, told, weight, leader,
    rewards, clock, happened, adoptions, r,
):  # fmt: skip
    """Step 4 in replica r, and who decides from now on."""
    experts = weight.shape[1]
    first = r * (experts + 1)
    alike = 1  # experts of one memory
    while alike < experts and same_memory(told, first, first + alike):
        alike += 1
    heaviest, top = 0, -1.0
    for g in range(0, experts, alike):
        own = 0.0
        for e in range(g, g + alike):
            own += weight[r, e]
        if own > top:
            heaviest, top = g, own
    changed = False
    for g in range(0, heaviest, alike):  # memories longer than the heaviest
        own = 0.0
        for e in range(g, g + alike):
            own += weight[r, e]
        if own < NEGLIGIBLE:
            changed = True
            take_over(
                theta, count, gram, gram_low, inverse, moment, moment_low, logdet, rss, leveraged,
                first + g, first + heaviest, alike,
            )  # fmt: skip
            for e in range(alike):
                weight[r, g + e] = weight[r, heaviest + e] / top * alike / experts
            place = happened[r, 0] % KEPT
            adoptions[r, place, 0] = rewards[r]
            adoptions[r, place, 1] = clock[r]
            adoptions[r, place, 2] = g // alike
            adoptions[r, place, 3] = heaviest // alike
            happened[r, 0] += 1
    if changed:
        total = 0.0
        for e in range(experts):
            total += weight[r, e]
        for e in range(experts):
            weight[r, e] /= total
    best = 0
    for e in range(1, experts):
        if weight[r, e] > weight[r, best]:
            best = e
    leader[r] = best


@inlined
def same_memory(told, s, other):
    """Whether two experts forget alike."""
    return told[s, FACTOR] == told[other, FACTOR] and told[s, SECONDS] == told[other, SECONDS]


@deferred(
    "void(f8[:,::1], f8[::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1],"
    "f8[::1], intp, intp, intp)"
)
def take_over(
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
def best_loss(sigma, n, seen):
    """The least that n rewards can have cost whoever knew θ*, and σ: −log of their density."""
    if sigma > 0.0:
        return 0.5 * (n * math.log(2.0 * math.pi * sigma * sigma) + seen / (sigma * sigma))
    return 0.5 * n * (math.log(2.0 * math.pi * seen / n) + 1.0)


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


@inlined
def standing(lam, half_life, k, d, time):
    """What there is of λ along direction k at a time: it was whole when k's turn came last."""
    since, part = time - k * half_life / (PARTS * d), half_life / PARTS
    return lam * 2.0 ** (-(since - part * math.floor(since / part)) / half_life)


@inlined
def begin(model, s, lam, half_life, time):
    """Row s before any reward, at the time of the first."""
    d = model.theta.shape[1]
    for k in range(d):
        own = standing(lam, half_life, k, d, time)
        model.gram[s, k, k], model.inverse[s, k, k] = own, 1.0 / own
        model.logdet[s] += math.log(own / lam)


@inlined
def pass_time(model, s, lam, half_life, before, now):
    """The clock goes on: the past of row s fades, and λ is given back to the directions whose turn has come.

    A long silence passes in steps, none of which is so steep that V⁻¹ could not follow.
    """
    d, part = model.theta.shape[1], half_life / PARTS
    before = max(before, now - REACH * half_life)
    while before < now:
        after = min(now, before + STRIDE * half_life)
        f = 2.0 ** ((before - after) / half_life)
        fade(model, s, f)
        for k in range(d):
            shift = k * part / d
            if math.floor((after - shift) / part) > math.floor((before - shift) / part):
                c = standing(lam, half_life, k, d, after) - f * standing(lam, half_life, k, d, before)
                give_back(model, s, k, max(c, 0.0))
        before = after
