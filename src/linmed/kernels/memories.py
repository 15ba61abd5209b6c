"""Experts with different memories beside each other: how they are weighed, and what they do about a change.

For every reward (fixed share, Herbster & Warmuth 1998, with one step more):
1. each expert says how likely the reward was, and all learn, each with its own rate of forgetting;
2. w ∝ w·exp(log-likelihood), then w ← (1 − s)w + s/N;
3. adoption: where one memory has come to weigh less than 1/1000 and the heaviest is shorter, it takes over
   what that one knows, and 1/G of the weight: a long memory forgets a dead past and begins anew.
Experts may differ in their prior too. A memory's weight is then that of all its priors together, and what it
takes over goes from a prior to the same one.

Beside them a monitor neither forgets nor adopts. A bettor trusts the mixture Σ w p of the experts and the
monitor, each as it has predicted, again with a share, which falls as 1/(10⁴ + n). With M = −Σ log of the
probability that the bettor had for each reward, and L no more than what the rewards cost whoever knew θ*,
    log E = L − M
is, while θ* is one and the same, at most the logarithm of a supermartingale that starts at 1. So
P(log E ≥ log 1/α, ever) ≤ α. At an alarm the test begins anew. What L is: forgetting.py, forgetting_glm.py.

On a clock, half-lives are durations: a reward counts 2^(−age/H), age from its decision to the newest one
known. The prior is given back by the clock alone, to direction k whenever another sixteenth of a half-life
has passed, the directions in turn.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from linmed.kernels.compile import borrowed, by_class, inlined, kernel, version_of
from linmed.kernels.fading import fade, give_back

NEGLIGIBLE = 1e-3  # the weight below which a memory gives up its own past
PARTS = 16  # how often in a half-life λ is given back to a direction, on a clock
STRIDE, REACH = 8.0, 64.0  # half-lives that fade in one step, and beyond which nothing is left
KEPT = 16  # adoptions and alarms that are remembered
PATIENCE = 1e4  # rewards until the bettor's share is half of what it was
SHARE, LEVEL = range(2)  # of `rules`: s; log 1/α


@by_class
def absorb_at(belief, r, features, i, reward, time, u):
    """One observation of replica r, whose decision was taken at `time`: row i of features; u (d,) scratch."""


@by_class
def same_memory(belief, s, other):
    """Whether the experts of two rows forget alike."""


@by_class
def take_over(belief, to, source, rows):
    """What `rows` experts from row `source` on know becomes what those from `to` on do."""


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
def adopt(belief, r):
    """Step 3 in replica r, and who decides from now on."""
    weight, happened, adoptions = belief.weight, belief.happened, belief.adoptions
    experts = weight.shape[1]
    first = r * (experts + 1)
    alike = 1  # experts of one memory
    while alike < experts and same_memory(belief, first, first + alike):
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
            take_over(belief, first + g, first + heaviest, alike)
            for e in range(alike):
                weight[r, g + e] = weight[r, heaviest + e] / top * alike / experts
            place = happened[r, 0] % KEPT
            adoptions[r, place, 0] = belief.rewards[r]
            adoptions[r, place, 1] = belief.clock[r]
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
    belief.leader[r] = best


@inlined
def bet(belief, r, n, mixture):
    """M goes on in replica r, whose monitor has seen n rewards; `mixture` is the experts' log-density.

    Returns by how much.
    """
    own = belief.score[r, belief.weight.shape[1]]
    best = max(own, mixture)
    trusted = belief.trust[r] * math.exp(own - best)
    total = trusted + (1.0 - belief.trust[r]) * math.exp(mixture - best)
    share = 1.0 / (PATIENCE + n)
    belief.trust[r] = (1.0 - share) * (trusted / total) + 0.5 * share
    more = -(best + math.log(total))
    belief.loss[r] += more
    return more


@inlined
def alarmed(belief, r, least, time):
    """log E of replica r from L; where it is enough, an alarm is noted and the bettor begins anew."""
    belief.evidence[r] = least - belief.loss[r]
    if not belief.evidence[r] >= belief.rules[r, LEVEL]:
        return False
    alarm = belief.happened[r, 1] % KEPT
    belief.alarms[r, alarm, 0] = belief.rewards[r]
    belief.alarms[r, alarm, 1] = time
    belief.alarms[r, alarm, 2] = belief.evidence[r]
    belief.happened[r, 1] += 1
    belief.loss[r], belief.evidence[r], belief.trust[r] = 0.0, 0.0, 0.5
    return True


@inlined
def standing(prior, half_life, turn, turns, time):
    """What there is of a prior at a time: it was whole when the direction's turn came last."""
    since, part = time - turn * half_life / (PARTS * turns), half_life / PARTS
    return prior * 2.0 ** (-(since - part * math.floor(since / part)) / half_life)


@inlined
def begin(model, s, lam, base, half_life, time, u):
    """Row s before any reward, at the time of the first.

    λ is the prior of every feature and `base` that of an intercept, direction −1; 0 where there is none.
    """
    d = model.theta.shape[1]
    first = -1 if base > 0.0 else 0
    for k in range(first, d):
        whole = base if k < 0 else lam
        give_back(model, s, k, standing(whole, half_life, k - first, d - first, time) - whole, u)


@inlined
def pass_time(model, s, lam, base, half_life, before, now, u):
    """The clock goes on: the past of row s fades, and priors are given back where their turn has come.

    A long silence passes in steps, none of which is so steep that V⁻¹ could not follow.
    """
    d, part = model.theta.shape[1], half_life / PARTS
    first = -1 if base > 0.0 else 0
    turns = d - first
    before = max(before, now - REACH * half_life)
    while before < now:
        after = min(now, before + STRIDE * half_life)
        f = 2.0 ** ((before - after) / half_life)
        fade(model, s, f)
        for k in range(first, d):
            shift, whole = (k - first) * part / turns, base if k < 0 else lam
            if math.floor((after - shift) / part) > math.floor((before - shift) / part):
                had = f * standing(whole, half_life, k - first, turns, before)
                more = standing(whole, half_life, k - first, turns, after) - had
                give_back(model, s, k, max(more, 0.0), u)
        before = after
