"""What the best arm of every round would have paid."""

import numpy as np

from linmed import validation
from linmed.environments import Environment
from linmed.simulation.environment_batch import EnvironmentBatch
from linmed.streams import stream
from linmed.validation import Floats


def attainable(environment: Environment, horizon: int, trials: int, seed: int = 0) -> Floats:
    """Σ max_a ⟨θ*, a⟩ over the rounds of every trial that `simulate` plays.  (trials,)

    What a policy was expected to collect, clicks for instance, is this less its regret:
    `attainable(environment, horizon, trials, seed) - results.final("LinMED")`.

    >>> from linmed import LinMED, simulate
    >>> from linmed.environments import LargeGap
    >>> best = attainable(LargeGap(), horizon=100, trials=2)
    >>> results = simulate(LinMED(), LargeGap(), horizon=100, trials=2, progress=False)
    >>> best, bool((best - results.final("LinMED") > 0).all())
    (array([100., 100.]), True)
    """
    if not isinstance(environment, Environment):
        raise TypeError(f"environment must be an Environment, got {environment!r}")
    horizon, trials = validation.whole("horizon", horizon), validation.whole("trials", trials)
    seed = validation.whole("seed", seed, at_least=0)
    return np.array([best_of_trial(environment, horizon, seed, trial) for trial in range(trials)])


def best_of_trial(environment: Environment, horizon: int, seed: int, trial: int) -> float:
    """The same of one trial."""
    environments = EnvironmentBatch(environment, [stream(seed, "environment", trial)])
    total, done = 0.0, 0
    while done < horizon:
        rounds = min(environments.advance(), horizon - done)
        best = environments.best[:rounds, 0]  # one for all rounds where the arms stay the same
        total += float(best.sum()) if len(best) == rounds else rounds * float(best[0])
        done += rounds
    return total
