"""What one trial of the rejection costs: regret of CatalogueMED beside LinMED's on the same trials.

    python benchmarks/catalogue_regret.py [--trials 400] [--seed 0]

LinMED plays p ∝ q f, which is rejection sampling without end: propose a ~ q, keep it with probability f(a), else
propose again. CatalogueMED proposes once and plays â where that is not kept, so that q f is a probability without
a sum over the arms.

The rule, fixed before the first run. Problems: N = 2000 and N = 400 arms and θ* uniform on the unit sphere of R⁶,
the same through a trial, σ = σ* = 1, 1500 rounds; both policies as they are by default; 400 trials, the same arms
and noise for both. Measured is the ratio of mean regrets, CatalogueMED / LinMED, with its 99 % interval (delta
method over paired trials). Each N decides for itself:

    the whole interval is at most 1.2     the rule may be built on
    the whole interval is above 1.2       the rule is improved before anything is built on it
    1.2 lies within                       1600 further trials with another seed, whose ratio alone decides

Only N = 2000 is a condition; N = 400 is shown beside it. Decisions by route, where the design stands on a coreset,
are held to the same rule once they exist.
"""
