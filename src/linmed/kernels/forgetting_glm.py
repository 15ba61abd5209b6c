"""Generalised linear models that forget at different rates: clicks and counts in a world that changes.

What is done for every reward is said in memories.py, one model's step in glm.py. Before its step the past of
a model with the factor γ counts γ times what it did, and afterwards a part of a prior that has faded is given
back, to the intercept and the features in turn, D of them together:
    H ← γH;   (c, θ̂) moves to where ½‖· − (c, θ̂)‖² in H plus ℓ is smallest, H += w (1, a)(1, a)ᵀ;
    H += D(1 − γ)λ_k e_k e_kᵀ, an observation along e_k that paid 0.
For Gaussian rewards that is forgetting.py. For others the step depends a little on the order of the rewards.

The test. The monitor takes its steps with the certified curvature, for which (docs/clicks.md), for every θ*
with ‖θ*‖ ≤ S and an intercept c* of at most 5,
    Σℓ(z*) ≥ Σ(ℓ(z′) + s²h/2) − (λS² + λ₀·5²)/2 =: L,
each step being the minimum of a quadratic function plus a loss that is bent at least as much as w says: the
sum of their optimality conditions telescopes. So L is no more than what the rewards cost whoever knew θ*, in
O(d²) and without keeping a reward. w is the least curvature over where the monitor's own certified set says
that z* is, with the bettor's predictions for m: which is so for all rewards with probability 1 − α/10. The
other 9/10 of α are the test's, hence log 9/10 in log E. A click, or a fraction of one, has
E[(p/μ)^y ((1 − p)/(1 − μ))^(1 − y)] ≤ 1 for any p foretold (the function is convex in y), and a count the
like: exp(Σℓ(z*) − M) is a supermartingale.
"""

from typing import NamedTuple

from linmed.checks import Floats, Ints
from linmed.kernels.compile import borrowed, deferred, inlined
from linmed.kernels.fading import fade, give_back
from linmed.kernels.glm import FAMILY, PRECISION, Glm, consider, polish_parts, take_step
from linmed.kernels.links import predictive_loss
from linmed.kernels.memories import SHARE, adopt, alarmed, begin, bet, pass_time, weigh
from linmed.kernels.ridge import REFRESH

PRIOR = 2  # of `rules`, behind SHARE and LEVEL: λS² + λ₀·5² − 2 log 9/10
LAMBDA, BASE, FACTOR, SECONDS = range(4)
"""Of `memory`: λ; the intercept's own, 0 without one; γ for every reward; the half-life on a clock, or 0."""


class GlmForgetting(NamedTuple):
    """N experts and a monitor in every replica: row r·(N+1) + e. Kernels take it as a plain tuple.

    Experts are in order of memory, the longest first, those of one memory in order of λ.
    """

    theta: Floats
    intercept: Floats
    count: Floats  # type: ignore[assignment]  # n, what is left of the number of rewards
    gram: Floats
    gram_low: Floats
    inverse: Floats
    cross: Floats
    corner: Floats
    logdet: Floats
    excess: Floats
    surprise: Floats
    told: Floats  # as of `Glm`
    memory: Floats  # (R·(N+1),4) how each forgets
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
        memory = self.memory
        return memory[s, FACTOR] == memory[other, FACTOR] and memory[s, SECONDS] == memory[other, SECONDS]

    def take_over(self, to, source, rows):
        """What `rows` experts from row `source` on know becomes what those from `to` on do."""
        copy_rows(
            self.theta, self.intercept, self.count, self.gram, self.gram_low, self.inverse, self.cross,
            self.corner, self.logdet, self.excess, self.surprise, to, source, rows,
        )  # fmt: skip

    by_divergence = Glm.by_divergence  # type: ignore[misc]
    look_at = Glm.look_at  # type: ignore[misc]
    factor_precision = Glm.factor_precision  # type: ignore[misc]


@inlined
def parts(belief):
    """A `GlmForgetting` as a plain tuple."""
    return (
        belief.theta, belief.intercept, belief.count, belief.gram, belief.gram_low, belief.inverse,
        belief.cross, belief.corner, belief.logdet, belief.excess, belief.surprise, belief.told,
        belief.memory, belief.weight, belief.score, belief.rules, belief.leader, belief.rewards, belief.clock,
        belief.trust, belief.loss, belief.evidence, belief.happened, belief.adoptions, belief.alarms,
    )  # fmt: skip


@deferred(
    "void(Tuple((f8[:,::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[::1],"
    "f8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1], i8[::1],"
    "f8[::1], f8[::1], f8[::1], f8[::1], i8[:,::1], f8[:,:,::1], f8[:,:,::1])), intp, f8[:,::1], intp, f8,"
    "f8, f8[::1])"
)
def learn_at(state, r, features, i, reward, time, u):
    """One observation of replica r, whose decision was taken at `time`; compiled once for all rules."""
    belief, features, u = GlmForgetting(*borrowed(state)), borrowed(features), borrowed(u)
    model = Glm(
        belief.theta, belief.intercept, belief.count,  # type: ignore[arg-type]
        belief.gram, belief.gram_low, belief.inverse, belief.cross, belief.corner, belief.logdet,
        belief.excess, belief.surprise, belief.told, belief.leader,
    )  # fmt: skip
    experts = belief.weight.shape[1]
    first = r * (experts + 1)
    polish = (belief.rewards[r] + 1) % REFRESH == 0
    begun = belief.rewards[r] > 0
    before = belief.clock[r] if begun else time
    now = max(before, time)
    for s in range(first, first + experts):
        z, h, own = consider(model, s, features, i, u)
        predicted = predictive_loss(int(model.told[s, FAMILY]), model.told[s, PRECISION], z, h, reward)
        belief.score[r, s - first] = -predicted
        lam, base, seconds = belief.memory[s, LAMBDA], belief.memory[s, BASE], belief.memory[s, SECONDS]
        f, times = belief.memory[s, FACTOR], 1.0
        if seconds > 0.0:
            if not begun:
                begin(model, s, lam, base, seconds, now, u)
            elif now > before:
                pass_time(model, s, lam, base, seconds, before, now, u)
            times = 2.0 ** ((time - now) / seconds)
            z, h, own = consider(model, s, features, i, u)
        elif f < 1.0:
            fade(model, s, f)
            h, own = h / f, own / f
            for k in range(u.shape[0]):
                u[k] /= f
        steep = take_step(model, s, features, i, reward, times, z, h, own, u, predicted)
        if f < 1.0:
            steep = restore_prior(model, s, belief.rewards[r], lam, base, f, u) or steep
        model.count[s] += times
        if steep or polish:
            polish_parts(model.gram, model.gram_low, model.inverse, model.cross, model.corner, s)
    belief.rewards[r] += 1
    belief.clock[r] = now
    mixture = weigh(belief.weight, belief.score, r, belief.rules[r, SHARE])
    adopt(belief, r)
    s = first + experts  # the monitor, for which a reward was foreseen as the bettor did
    z, h, own = consider(model, s, features, i, u)
    predicted = predictive_loss(int(model.told[s, FAMILY]), model.told[s, PRECISION], z, h, reward)
    belief.score[r, experts] = -predicted
    model.count[s] += 1.0
    foreseen = bet(belief, r, model.count[s], mixture)
    if take_step(model, s, features, i, reward, 1.0, z, h, own, u, foreseen) or polish:
        polish_parts(model.gram, model.gram_low, model.inverse, model.cross, model.corner, s)
    least = belief.loss[r] - 0.5 * (model.excess[s] + belief.rules[r, PRIOR])
    if alarmed(belief, r, least, time):
        restart(model, s, belief.memory[s, LAMBDA], belief.memory[s, BASE])


@inlined
def restore_prior(model, s, turn, lam, base, f, u):
    """Gives back what has faded of the prior of the direction whose turn it is; see `give_back`."""
    first = -1 if base > 0.0 else 0
    turns = u.shape[0] - first
    k = first + turn % turns
    return give_back(model, s, k, turns * (1.0 - f) * (base if k < 0 else lam), u)


@inlined
def restart(model, s, lam, base):
    """Row s as before any reward."""
    d = model.theta.shape[1]
    for j in range(d + 1):
        for k in range(d + 1):
            model.gram[s, j, k] = model.gram_low[s, j, k] = 0.0
    for j in range(d):
        model.theta[s, j] = model.cross[s, j] = 0.0
        for k in range(d):
            model.inverse[s, j, k] = 1.0 / lam if j == k else 0.0
        model.gram[s, j + 1, j + 1] = lam
    model.gram[s, 0, 0] = base if base > 0.0 else 1.0
    model.corner[s] = 1.0 / model.gram[s, 0, 0]
    model.intercept[s] = model.count[s] = model.logdet[s] = model.excess[s] = model.surprise[s] = 0.0


@deferred(
    "void(f8[:,::1], f8[::1], f8[::1], f8[:,:,::1], f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1],"
    "f8[::1], f8[::1], intp, intp, intp)"
)
def copy_rows(
    theta,
    intercept,
    count,
    gram,
    gram_low,
    inverse,
    cross,
    corner,
    logdet,
    excess,
    surprise,
    to,
    source,
    rows,
):
    """What `rows` experts from `source` on know becomes what those from `to` on do."""
    for e in range(rows):
        a, b = to + e, source + e
        theta[a], intercept[a], count[a], gram[a] = theta[b], intercept[b], count[b], gram[b]
        gram_low[a], inverse[a], cross[a], corner[a] = gram_low[b], inverse[b], cross[b], corner[b]
        logdet[a], excess[a], surprise[a] = logdet[b], excess[b], surprise[b]
